#include <limits>

#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool known(std::int32_t kind) {
  return (kind >= TERN_ACT_SILU && kind <= TERN_ACT_SIGMOID) || kind == TERN_ACT_QUICK_GELU;
}

// Infinity where nothing is clamped.
float limit_of(float limit) { return limit > 0.0F ? limit : std::numeric_limits<float>::infinity(); }

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_mul_attrs>().kind), "no activation of this version has that kind")
      .floats({TERN_ACT_MUL_GATE, TERN_ACT_MUL_UP, TERN_ACT_MUL_Y})
      .same_shape({TERN_ACT_MUL_GATE, TERN_ACT_MUL_UP, TERN_ACT_MUL_Y})
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("GATED", 1).set("KIND", desc.attrs<tern_act_mul_attrs>().kind);
  defines.tensor("gate", desc, TERN_ACT_MUL_GATE).tensor("up", desc, TERN_ACT_MUL_UP).tensor("y", desc, TERN_ACT_MUL_Y);
  return {{"act", "act_mul", defines.text()}};
}

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_act_mul_attrs>();
  const TensorView &gate = launch[TERN_ACT_MUL_GATE], &up = launch[TERN_ACT_MUL_UP], &y = launch[TERN_ACT_MUL_Y];
  const Walk walk = make_walk(launch.device(), {&y, &gate, &up});
  Call call = launch.call(0);
  call.arg(gate).arg(up).arg(y).arg(walk).arg(limit_of(attrs.limit)).arg(attrs.up_offset);
  call.run(walk.units, plain_group(launch.device()));
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_mul_backward_attrs>().kind), "no activation of this version has that kind")
      .floats({0, 1, 2, 3, 4})
      .same_shape({0, 1, 2, 3, 4})
      .ok();
}

std::vector<Function> functions_backward(const PlanDesc& desc) {
  Defines defines;
  defines.set("GATED_BACKWARD", 1).set("KIND", desc.attrs<tern_act_mul_backward_attrs>().kind);
  defines.tensor("dy", desc, TERN_ACT_MUL_BACKWARD_DY)
      .tensor("gate", desc, TERN_ACT_MUL_BACKWARD_GATE)
      .tensor("up", desc, TERN_ACT_MUL_BACKWARD_UP)
      .tensor("dgate", desc, TERN_ACT_MUL_BACKWARD_DGATE)
      .tensor("dup", desc, TERN_ACT_MUL_BACKWARD_DUP);
  return {{"act", "act_mul_backward", defines.text()}};
}

void run_backward(const Launch& launch) {
  const auto& attrs = launch.attr<tern_act_mul_backward_attrs>();
  const TensorView& dy = launch[TERN_ACT_MUL_BACKWARD_DY];
  const TensorView &gate = launch[TERN_ACT_MUL_BACKWARD_GATE], &up = launch[TERN_ACT_MUL_BACKWARD_UP];
  const TensorView &dgate = launch[TERN_ACT_MUL_BACKWARD_DGATE], &dup = launch[TERN_ACT_MUL_BACKWARD_DUP];
  const Walk walk = make_walk(launch.device(), {&dy, &gate, &up, &dgate, &dup});
  Call call = launch.call(0);
  call.arg(dy).arg(gate).arg(up).arg(dgate).arg(dup).arg(walk).arg(limit_of(attrs.limit)).arg(attrs.up_offset);
  call.run(walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ACT_MUL, "act_mul", supports, nullptr, functions, run},
    {TERN_OP_ACT_MUL_BACKWARD, "act_mul_backward", supports_backward, nullptr, functions_backward, run_backward}};

}  // namespace

KernelList act_mul_kernels() { return kKernels; }

}  // namespace tern::opencl
