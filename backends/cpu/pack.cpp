#include "backends/cpu/kernel.h"

namespace tern::cpu {

bool packed_info(const tern_tensor_desc& /*weight*/, std::uint32_t /*uses*/, Target /*target*/,
                 tern_packed_info& /*info*/, std::string& reason) {
  reason = "this device has no private layouts of weights";
  return false;
}

void pack(const TensorView&, const TensorView&, std::uint32_t, Target, ThreadPool&) {}
void unpack(const TensorView&, const TensorView&, std::uint32_t, Target, ThreadPool&) {}
std::uint64_t packed_bytes(const tern_tensor_desc&, Target) { return 0; }

}  // namespace tern::cpu
