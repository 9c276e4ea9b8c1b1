#include <algorithm>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) { return Check(desc, reason).floats({TERN_FILL_Y}).ok(); }

void run(const KernelArgs& args) {
  const float value = args.attr<tern_fill_attrs>().value;
  const TensorView& y = args[TERN_FILL_Y];
  const auto walk = make_walk<1>({&y});
  const TileIo io(args);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer buffer;
    float* py = TileIo::place(y, at[0], walk.inner_stride[0], false, buffer.data());
    std::fill_n(py, n, value);
    io.store(y, at[0], walk.inner_stride[0], n, false, py);
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_FILL, "fill", supports, nullptr, nullptr, run}};

}  // namespace

KernelList fill_kernels() { return kKernels; }

}  // namespace tern::cpu
