#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason).floats({0, 1, 2}).same_shape({TERN_AXPBY_X, TERN_AXPBY_Y, TERN_AXPBY_OUT}).ok();
}

void run(const KernelArgs& args) {
  const auto& [a, b] = args.attr<tern_axpby_attrs>();
  const TensorView &x = args[TERN_AXPBY_X], &y = args[TERN_AXPBY_Y], &out = args[TERN_AXPBY_OUT];
  const bool accumulate = args.accumulates(TERN_AXPBY_OUT);
  const auto walk = make_walk<3>({&out, &x, &y});
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  for_tiles(*args.pool, walk, [&, a = a, b = b](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer bx, by, bo;
    const auto count = static_cast<std::size_t>(n);
    const float* px = io.load(x, at[1], walk.inner_stride[1], n, bx.data());
    float* po = TileIo::place(out, at[0], walk.inner_stride[0], accumulate, bo.data());
    if (y.present()) {
      math.axpby(a, px, b, io.load(y, at[2], walk.inner_stride[2], n, by.data()), count, po);
    } else {
      math.scale(a, px, count, po);
    }
    io.store(out, at[0], walk.inner_stride[0], n, accumulate, po);
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_AXPBY, "axpby", supports, nullptr, nullptr, run}};

}  // namespace

KernelList axpby_kernels() { return kKernels; }

}  // namespace tern::cpu
