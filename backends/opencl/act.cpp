#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool known(std::int32_t kind) { return kind >= TERN_ACT_SILU && kind <= TERN_ACT_QUICK_GELU; }

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_attrs>().kind), "no activation of this version has that kind")
      .floats({TERN_ACT_X, TERN_ACT_Y})
      .same_shape({TERN_ACT_X, TERN_ACT_Y})
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("ALONE", 1).set("KIND", desc.attrs<tern_act_attrs>().kind);
  defines.tensor("x", desc, TERN_ACT_X).tensor("y", desc, TERN_ACT_Y);
  return {{"act", "act", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_ACT_X], &y = launch[TERN_ACT_Y];
  const Walk walk = make_walk(launch.device(), {&y, &x});
  launch.call(0).arg(x).arg(y).arg(walk).run(walk.units, plain_group(launch.device()));
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(known(desc.attrs<tern_act_backward_attrs>().kind), "no activation of this version has that kind")
      .floats({TERN_ACT_BACKWARD_DY, TERN_ACT_BACKWARD_X, TERN_ACT_BACKWARD_DX})
      .same_shape({TERN_ACT_BACKWARD_DY, TERN_ACT_BACKWARD_X, TERN_ACT_BACKWARD_DX})
      .ok();
}

std::vector<Function> functions_backward(const PlanDesc& desc) {
  Defines defines;
  defines.set("ALONE_BACKWARD", 1).set("KIND", desc.attrs<tern_act_backward_attrs>().kind);
  defines.tensor("dy", desc, TERN_ACT_BACKWARD_DY)
      .tensor("x", desc, TERN_ACT_BACKWARD_X)
      .tensor("dx", desc, TERN_ACT_BACKWARD_DX);
  return {{"act", "act_backward", defines.text()}};
}

void run_backward(const Launch& launch) {
  const TensorView &dy = launch[TERN_ACT_BACKWARD_DY], &x = launch[TERN_ACT_BACKWARD_X];
  const TensorView& dx = launch[TERN_ACT_BACKWARD_DX];
  const Walk walk = make_walk(launch.device(), {&dx, &dy, &x});
  launch.call(0).arg(dy).arg(x).arg(dx).arg(walk).run(walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ACT, "act", supports, nullptr, functions, run},
    {TERN_OP_ACT_BACKWARD, "act_backward", supports_backward, nullptr, functions_backward, run_backward}};

}  // namespace

KernelList act_kernels() { return kKernels; }

}  // namespace tern::opencl
