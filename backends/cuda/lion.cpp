#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
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

Functions functions(const PlanDesc& /*desc*/) { return {"lion"}; }

void run(const Launch& launch) {
  const TensorView &param = launch[TERN_LION_PARAM], &m = launch[TERN_LION_M], &grad = launch[TERN_LION_GRAD];
  const TensorView& hyper = launch[TERN_LION_HYPER];
  const Dense dense = make_dense({&param, &m, &grad});
  launch.call(0)
      .arg(param)
      .arg(m)
      .arg(grad)
      .arg(hyper)
      .arg(dense)
      .arg(hyper.stride(0))
      .run(dense.walk.units, kDenseThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_LION, "lion", supports, nullptr, functions, run}};

}  // namespace

KernelList lion_kernels() { return kKernels; }

}  // namespace tern::cuda
