#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_LION_PARAM, TERN_F32)
      .dtype(TERN_LION_M, TERN_F32)
      .dtype(TERN_LION_HYPER, TERN_F32)
      .floats({TERN_LION_GRAD})
      .dim(TERN_LION_HYPER, 0, 7)
      .same_shape({TERN_LION_PARAM, TERN_LION_M, TERN_LION_GRAD})
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.tensor("grad", desc, TERN_LION_GRAD);
  return {{"lion", "lion", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &param = launch[TERN_LION_PARAM], &m = launch[TERN_LION_M], &grad = launch[TERN_LION_GRAD];
  const TensorView& hyper = launch[TERN_LION_HYPER];
  const Walk walk = make_walk(launch.device(), {&param, &m, &grad});
  launch.call(0).arg(param).arg(m).arg(grad).arg(hyper).arg(walk).arg(hyper.stride(0)).run(walk.units,
                                                                                          plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_LION, "lion", supports, nullptr, functions, run}};

}  // namespace

KernelList lion_kernels() { return kKernels; }

}  // namespace tern::opencl
