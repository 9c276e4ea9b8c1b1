#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_SCALE_X, TERN_SCALE_Y})
      .dtype(TERN_SCALE_FACTOR, TERN_F32)
      .dim(TERN_SCALE_FACTOR, 0, 1)
      .same_shape({TERN_SCALE_X, TERN_SCALE_Y})
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"scale"}; }

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SCALE_X], &factor = launch[TERN_SCALE_FACTOR], &y = launch[TERN_SCALE_Y];
  const Dense dense = make_dense({&y, &x});
  launch.call(0).arg(x).arg(factor).arg(y).arg(dense).run(dense.walk.units, kDenseThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SCALE, "scale", supports, nullptr, functions, run}};

}  // namespace

KernelList scale_kernels() { return kKernels; }

}  // namespace tern::cuda
