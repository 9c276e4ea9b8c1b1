#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
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

Functions functions(const PlanDesc& /*desc*/) { return {"adamw"}; }

void run(const Launch& launch) {
  const TensorView &param = launch[TERN_ADAMW_PARAM], &m = launch[TERN_ADAMW_M], &v = launch[TERN_ADAMW_V];
  const TensorView &grad = launch[TERN_ADAMW_GRAD], &hyper = launch[TERN_ADAMW_HYPER], &copy = launch[TERN_ADAMW_COPY];
  const Dense dense = make_dense({&param, &m, &v, &grad, &copy});
  launch.call(0)
      .arg(param)
      .arg(m)
      .arg(v)
      .arg(grad)
      .arg(hyper)
      .arg(copy)
      .arg(dense)
      .arg(hyper.stride(0))
      .run(dense.walk.units, kPlainThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAMW, "adamw", supports, nullptr, functions, run}};

}  // namespace

KernelList adamw_kernels() { return kKernels; }

}  // namespace tern::cuda
