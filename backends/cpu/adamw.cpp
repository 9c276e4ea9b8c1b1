#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_ADAMW_PARAM, TERN_F32)
      .dtype(TERN_ADAMW_M, TERN_F32)
      .dtype(TERN_ADAMW_V, TERN_F32)
      .dtype(TERN_ADAMW_HYPER, TERN_F32)
      .floats({TERN_ADAMW_GRAD, TERN_ADAMW_COPY})
      .dim(TERN_ADAMW_HYPER, 0, 10)
      .same_shape({TERN_ADAMW_PARAM, TERN_ADAMW_M, TERN_ADAMW_V, TERN_ADAMW_GRAD, TERN_ADAMW_COPY})
      .ok();
}

void run(const KernelArgs& args) {
  const TensorView &param = args[TERN_ADAMW_PARAM], &m = args[TERN_ADAMW_M], &v = args[TERN_ADAMW_V];
  const TensorView &grad = args[TERN_ADAMW_GRAD], &hyper = args[TERN_ADAMW_HYPER], &copy = args[TERN_ADAMW_COPY];
  const auto value = [&](int i) { return hyper.data<const float>()[i * hyper.stride(0)]; };
  const AdamwStep step{value(0), value(1), value(2), value(3), value(4),
                       value(5), value(6), value(7), value(8), value(9)};
  const auto walk = make_walk<5>({&param, &m, &v, &grad, &copy});
  const auto& stride = walk.inner_stride;
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer of_grad, of_copy;
    const float* g = io.load(grad, at[3], stride[3], n, of_grad.data());
    change_tiles<3>(io, {&param, &m, &v}, at, stride, n, [&](const auto& tiles) {
      math.adamw(step, g, static_cast<std::size_t>(n), tiles[0], tiles[1], tiles[2]);
      if (copy.present()) std::copy(tiles[0], tiles[0] + n, of_copy.data());
    });
    if (copy.present()) io.store(copy, at[4], stride[4], n, false, of_copy.data());
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAMW, "adamw", supports, nullptr, nullptr, run}};

}  // namespace

KernelList adamw_kernels() { return kKernels; }

}  // namespace tern::cpu
