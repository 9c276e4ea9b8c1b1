#include "backends/opencl/kernels.h"

namespace tern::opencl {
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

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.tensor("grad", desc, TERN_ADAMW_GRAD).tensor("copy", desc, TERN_ADAMW_COPY);
  return {{"adamw", "adamw", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &param = launch[TERN_ADAMW_PARAM], &m = launch[TERN_ADAMW_M], &v = launch[TERN_ADAMW_V];
  const TensorView &grad = launch[TERN_ADAMW_GRAD], &hyper = launch[TERN_ADAMW_HYPER], &copy = launch[TERN_ADAMW_COPY];
  const Walk walk = make_walk(launch.device(), {&param, &m, &v, &grad, &copy});
  launch.call(0)
      .arg(param)
      .arg(m)
      .arg(v)
      .arg(grad)
      .arg(hyper)
      .arg(copy)
      .arg(walk)
      .arg(hyper.stride(0))
      .run(walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAMW, "adamw", supports, nullptr, functions, run}};

}  // namespace

KernelList adamw_kernels() { return kKernels; }

}  // namespace tern::opencl
