#include <limits>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool known(std::int32_t kind) {
  return (kind >= TERN_ACT_SILU && kind <= TERN_ACT_SIGMOID) || kind == TERN_ACT_QUICK_GELU;
}

GatedAct gated_act(const tern_act_mul_attrs& attrs) {
  const float limit = attrs.limit > 0.0F ? attrs.limit : std::numeric_limits<float>::infinity();
  return {attrs.kind, limit, attrs.up_offset};
}

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_mul_attrs>().kind), "no activation of this version has that kind")
      .floats({0, 1, 2})
      .same_shape({0, 1, 2})
      .ok();
}

void run(const KernelArgs& args) {
  const GatedAct act = gated_act(args.attr<tern_act_mul_attrs>());
  const TensorView &gate = args[TERN_ACT_MUL_GATE], &up = args[TERN_ACT_MUL_UP], &y = args[TERN_ACT_MUL_Y];
  const auto walk = make_walk<3>({&y, &gate, &up});
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer bg, bu, by;
    const float* pg = io.load(gate, at[1], walk.inner_stride[1], n, bg.data());
    const float* pu = io.load(up, at[2], walk.inner_stride[2], n, bu.data());
    float* py = TileIo::place(y, at[0], walk.inner_stride[0], false, by.data());
    math.act_mul(act, pg, pu, static_cast<std::size_t>(n), py);
    io.store(y, at[0], walk.inner_stride[0], n, false, py);
  });
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_mul_backward_attrs>().kind), "no activation of this version has that kind")
      .floats({0, 1, 2, 3, 4})
      .same_shape({0, 1, 2, 3, 4})
      .ok();
}

void run_backward(const KernelArgs& args) {
  const auto attrs = args.attr<tern_act_mul_backward_attrs>();
  const GatedAct act = gated_act({attrs.kind, attrs.limit, attrs.up_offset});
  const TensorView& dy = args[TERN_ACT_MUL_BACKWARD_DY];
  const TensorView &gate = args[TERN_ACT_MUL_BACKWARD_GATE], &up = args[TERN_ACT_MUL_BACKWARD_UP];
  const TensorView &dgate = args[TERN_ACT_MUL_BACKWARD_DGATE], &dup = args[TERN_ACT_MUL_BACKWARD_DUP];
  const auto walk = make_walk<5>({&dy, &gate, &up, &dgate, &dup});
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer bd, bg, bu, bdg, bdu;
    const auto& stride = walk.inner_stride;
    const float* pd = io.load(dy, at[0], stride[0], n, bd.data());
    const float* pg = io.load(gate, at[1], stride[1], n, bg.data());
    const float* pu = io.load(up, at[2], stride[2], n, bu.data());
    float* pdg = TileIo::place(dgate, at[3], stride[3], false, bdg.data());
    float* pdu = TileIo::place(dup, at[4], stride[4], false, bdu.data());
    math.act_mul_backward(act, pd, pg, pu, static_cast<std::size_t>(n), pdg, pdu);
    io.store(dgate, at[3], stride[3], n, false, pdg);
    io.store(dup, at[4], stride[4], n, false, pdu);
  });
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ACT_MUL, "act_mul", supports, nullptr, nullptr, run},
    {TERN_OP_ACT_MUL_BACKWARD, "act_mul_backward", supports_backward, nullptr, nullptr, run_backward}};

}  // namespace

KernelList act_mul_kernels() { return kKernels; }

}  // namespace tern::cpu
