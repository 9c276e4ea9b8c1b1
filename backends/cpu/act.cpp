#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool known(std::int32_t kind) { return kind >= TERN_ACT_SILU && kind <= TERN_ACT_QUICK_GELU; }

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_attrs>().kind), "no activation of this version has that kind")
      .floats({TERN_ACT_X, TERN_ACT_Y})
      .same_shape({TERN_ACT_X, TERN_ACT_Y})
      .ok();
}

void run(const KernelArgs& args) {
  const auto kind = args.attr<tern_act_attrs>().kind;
  const TensorView &x = args[TERN_ACT_X], &y = args[TERN_ACT_Y];
  const auto walk = make_walk<2>({&y, &x});
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer bx, by;
    const float* px = io.load(x, at[1], walk.inner_stride[1], n, bx.data());
    float* py = TileIo::place(y, at[0], walk.inner_stride[0], false, by.data());
    math.act(kind, px, static_cast<std::size_t>(n), py);
    io.store(y, at[0], walk.inner_stride[0], n, false, py);
  });
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_backward_attrs>().kind), "no activation of this version has that kind")
      .floats({TERN_ACT_BACKWARD_DY, TERN_ACT_BACKWARD_X, TERN_ACT_BACKWARD_DX})
      .same_shape({TERN_ACT_BACKWARD_DY, TERN_ACT_BACKWARD_X, TERN_ACT_BACKWARD_DX})
      .ok();
}

void run_backward(const KernelArgs& args) {
  const auto kind = args.attr<tern_act_backward_attrs>().kind;
  const TensorView &dy = args[TERN_ACT_BACKWARD_DY], &x = args[TERN_ACT_BACKWARD_X];
  const TensorView& dx = args[TERN_ACT_BACKWARD_DX];
  const auto walk = make_walk<3>({&dx, &dy, &x});
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer bd, bx, out;
    const auto& stride = walk.inner_stride;
    const float* pd = io.load(dy, at[1], stride[1], n, bd.data());
    const float* px = io.load(x, at[2], stride[2], n, bx.data());
    float* to = TileIo::place(dx, at[0], stride[0], false, out.data());
    math.act_backward(kind, pd, px, static_cast<std::size_t>(n), to);
    io.store(dx, at[0], stride[0], n, false, to);
  });
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ACT, "act", supports, nullptr, nullptr, run},
    {TERN_OP_ACT_BACKWARD, "act_backward", supports_backward, nullptr, nullptr, run_backward}};

}  // namespace

KernelList act_kernels() { return kKernels; }

}  // namespace tern::cpu
