#include <atomic>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_ALL_FINITE_X})
      .dtype(TERN_ALL_FINITE_OUT, TERN_I32)
      .dim(TERN_ALL_FINITE_OUT, 0, 1)
      .ok();
}

void run(const KernelArgs& args) {
  const TensorView& x = args[TERN_ALL_FINITE_X];
  auto& out = *args[TERN_ALL_FINITE_OUT].data<std::int32_t>();
  const auto walk = make_walk<1>({&x});
  const TileIo io(args);
  std::atomic<bool> finite{true};
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    if (!finite.load(std::memory_order_relaxed)) return;
    alignas(64) TileBuffer buffer;
    const float* px = io.load(x, at[0], walk.inner_stride[0], n, buffer.data());
    if (!tile_math(args.target).all_finite(px, static_cast<std::size_t>(n)))
      finite.store(false, std::memory_order_relaxed);
  });
  const bool before = !args.accumulates(TERN_ALL_FINITE_OUT) || out != 0;
  out = before && finite.load() ? 1 : 0;
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ALL_FINITE, "all_finite", supports, nullptr, nullptr, run}};

}  // namespace

KernelList all_finite_kernels() { return kKernels; }

}  // namespace tern::cpu
