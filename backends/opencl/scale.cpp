#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_SCALE_X, TERN_SCALE_Y})
      .dtype(TERN_SCALE_FACTOR, TERN_F32)
      .dim(TERN_SCALE_FACTOR, 0, 1)
      .same_shape({TERN_SCALE_X, TERN_SCALE_Y})
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.tensor("x", desc, TERN_SCALE_X).tensor("y", desc, TERN_SCALE_Y).adds("y", desc, TERN_SCALE_Y);
  return {{"scale", "scale", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SCALE_X], &factor = launch[TERN_SCALE_FACTOR], &y = launch[TERN_SCALE_Y];
  const Walk walk = make_walk(launch.device(), {&y, &x});
  launch.call(0).arg(x).arg(factor).arg(y).arg(walk).run(walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SCALE, "scale", supports, nullptr, functions, run}};

}  // namespace

KernelList scale_kernels() { return kKernels; }

}  // namespace tern::opencl
