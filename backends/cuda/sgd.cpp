#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
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

Functions functions(const PlanDesc& /*desc*/) { return {"sgd"}; }

void run(const Launch& launch) {
  const TensorView &param = launch[TERN_SGD_PARAM], &buf = launch[TERN_SGD_BUF], &grad = launch[TERN_SGD_GRAD];
  const TensorView& hyper = launch[TERN_SGD_HYPER];
  const Dense dense = make_dense({&param, &buf, &grad});
  launch.call(0)
      .arg(param)
      .arg(buf)
      .arg(grad)
      .arg(hyper)
      .arg(dense)
      .arg(hyper.stride(0))
      .run(dense.walk.units, kDenseThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SGD, "sgd", supports, nullptr, functions, run}};

}  // namespace

KernelList sgd_kernels() { return kKernels; }

}  // namespace tern::cuda
