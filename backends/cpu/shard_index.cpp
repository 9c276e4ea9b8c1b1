#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_SHARD_INDEX_IDS, TERN_I32)
      .dtype(TERN_SHARD_INDEX_Y, TERN_I32)
      .rank(TERN_SHARD_INDEX_IDS, 1)
      .rank(TERN_SHARD_INDEX_Y, 1)
      .dim(TERN_SHARD_INDEX_Y, 0, desc.arg(TERN_SHARD_INDEX_IDS).shape[0])
      .ok();
}

void run(const KernelArgs& args) {
  const auto attrs = args.attr<tern_shard_index_attrs>();
  const TensorView &ids = args[TERN_SHARD_INDEX_IDS], &y = args[TERN_SHARD_INDEX_Y];
  for (std::int64_t r = 0; r < ids.dim(0); ++r) {
    const std::int64_t at = std::int64_t{ids.data<const std::int32_t>()[r * ids.stride(0)]} - attrs.first;
    y.data<std::int32_t>()[r * y.stride(0)] = at >= 0 && at < attrs.count ? static_cast<std::int32_t>(at) : -1;
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SHARD_INDEX, "shard_index", supports, nullptr, nullptr, run}};

}  // namespace

KernelList shard_index_kernels() { return kKernels; }

}  // namespace tern::cpu
