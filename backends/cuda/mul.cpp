#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_MUL_X, TERN_MUL_Y, TERN_MUL_OUT})
      .same_shape({TERN_MUL_X, TERN_MUL_Y, TERN_MUL_OUT})
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"mul"}; }

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_MUL_X], &y = launch[TERN_MUL_Y], &out = launch[TERN_MUL_OUT];
  const Dense dense = make_dense({&out, &x, &y});
  launch.call(0).arg(x).arg(y).arg(out).arg(dense).run(dense.walk.units, kDenseThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MUL, "mul", supports, nullptr, functions, run}};

}  // namespace

KernelList mul_kernels() { return kKernels; }

}  // namespace tern::cuda
