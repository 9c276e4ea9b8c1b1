#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_AXPBY_X, TERN_AXPBY_Y, TERN_AXPBY_OUT})
      .same_shape({TERN_AXPBY_X, TERN_AXPBY_Y, TERN_AXPBY_OUT})
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.tensor("x", desc, TERN_AXPBY_X)
      .tensor("y", desc, TERN_AXPBY_Y)
      .tensor("out", desc, TERN_AXPBY_OUT)
      .adds("out", desc, TERN_AXPBY_OUT);
  return {{"axpby", "axpby", defines.text()}};
}

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_axpby_attrs>();
  const TensorView &x = launch[TERN_AXPBY_X], &y = launch[TERN_AXPBY_Y], &out = launch[TERN_AXPBY_OUT];
  const Walk walk = make_walk(launch.device(), {&out, &x, &y});
  launch.call(0).arg(x).arg(y).arg(out).arg(walk).arg(attrs.a).arg(attrs.b).run(walk.units,
                                                                                plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_AXPBY, "axpby", supports, nullptr, functions, run}};

}  // namespace

KernelList axpby_kernels() { return kKernels; }

}  // namespace tern::opencl
