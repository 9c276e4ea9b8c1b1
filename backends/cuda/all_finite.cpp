#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_ALL_FINITE_X})
      .dtype(TERN_ALL_FINITE_OUT, TERN_I32)
      .dim(TERN_ALL_FINITE_OUT, 0, 1)
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"all_finite_begin", "all_finite_look"}; }

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_ALL_FINITE_X], &out = launch[TERN_ALL_FINITE_OUT];
  launch.call(0).arg(out.planes[0]).arg(std::int32_t{launch.accumulates(TERN_ALL_FINITE_OUT)}).run(1, 1);
  const Dense dense = make_dense({&x});
  launch.call(1).arg(x).arg(out.planes[0]).arg(dense).run(dense.walk.units, kDenseThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ALL_FINITE, "all_finite", supports, nullptr, functions, run}};

}  // namespace

KernelList all_finite_kernels() { return kKernels; }

}  // namespace tern::cuda
