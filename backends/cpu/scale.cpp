#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_SCALE_X, TERN_SCALE_Y})
      .dtype(TERN_SCALE_FACTOR, TERN_F32)
      .dim(TERN_SCALE_FACTOR, 0, 1)
      .same_shape({TERN_SCALE_X, TERN_SCALE_Y})
      .ok();
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_SCALE_X], &y = args[TERN_SCALE_Y];
  const float factor = *args[TERN_SCALE_FACTOR].data<const float>();
  const bool accumulate = args.accumulates(TERN_SCALE_Y);
  const auto walk = make_walk<2>({&y, &x});
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer bx, by;
    const float* px = io.load(x, at[1], walk.inner_stride[1], n, bx.data());
    float* py = TileIo::place(y, at[0], walk.inner_stride[0], accumulate, by.data());
    math.scale(factor, px, static_cast<std::size_t>(n), py);
    io.store(y, at[0], walk.inner_stride[0], n, accumulate, py);
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SCALE, "scale", supports, nullptr, nullptr, run}};

}  // namespace

KernelList scale_kernels() { return kKernels; }

}  // namespace tern::cpu
