#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_SGD_PARAM, TERN_F32)
      .dtype(TERN_SGD_BUF, TERN_F32)
      .dtype(TERN_SGD_HYPER, TERN_F32)
      .floats({TERN_SGD_GRAD})
      .dim(TERN_SGD_HYPER, 0, 8)
      .same_shape({TERN_SGD_PARAM, TERN_SGD_BUF, TERN_SGD_GRAD})
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.tensor("grad", desc, TERN_SGD_GRAD).tensor("buf", desc, TERN_SGD_BUF);
  return {{"sgd", "sgd", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &param = launch[TERN_SGD_PARAM], &buf = launch[TERN_SGD_BUF], &grad = launch[TERN_SGD_GRAD];
  const TensorView& hyper = launch[TERN_SGD_HYPER];
  const Walk walk = make_walk(launch.device(), {&param, &buf, &grad});
  launch.call(0).arg(param).arg(buf).arg(grad).arg(hyper).arg(walk).arg(hyper.stride(0)).run(
      walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SGD, "sgd", supports, nullptr, functions, run}};

}  // namespace

KernelList sgd_kernels() { return kKernels; }

}  // namespace tern::opencl
