#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_MUL_X, TERN_MUL_Y, TERN_MUL_OUT})
      .same_shape({TERN_MUL_X, TERN_MUL_Y, TERN_MUL_OUT})
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.tensor("x", desc, TERN_MUL_X)
      .tensor("y", desc, TERN_MUL_Y)
      .tensor("out", desc, TERN_MUL_OUT)
      .adds("out", desc, TERN_MUL_OUT);
  return {{"mul", "mul", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_MUL_X], &y = launch[TERN_MUL_Y], &out = launch[TERN_MUL_OUT];
  const Walk walk = make_walk(launch.device(), {&out, &x, &y});
  launch.call(0).arg(x).arg(y).arg(out).arg(walk).run(walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MUL, "mul", supports, nullptr, functions, run}};

}  // namespace

KernelList mul_kernels() { return kKernels; }

}  // namespace tern::opencl
