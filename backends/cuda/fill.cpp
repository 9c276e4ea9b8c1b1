#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) { return Check(desc, reason).floats({TERN_FILL_Y}).ok(); }

Functions functions(const PlanDesc& /*desc*/) { return {"fill"}; }

void run(const Launch& launch) {
  const TensorView& y = launch[TERN_FILL_Y];
  const Dense dense = make_dense({&y});
  launch.call(0).arg(y).arg(dense).arg(launch.attr<tern_fill_attrs>().value).run(dense.walk.units, kDenseThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_FILL, "fill", supports, nullptr, functions, run}};

}  // namespace

KernelList fill_kernels() { return kKernels; }

}  // namespace tern::cuda
