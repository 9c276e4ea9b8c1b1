#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_AXPBY_X, TERN_AXPBY_Y, TERN_AXPBY_OUT})
      .same_shape({TERN_AXPBY_X, TERN_AXPBY_Y, TERN_AXPBY_OUT})
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"axpby"}; }

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_axpby_attrs>();
  const TensorView &x = launch[TERN_AXPBY_X], &y = launch[TERN_AXPBY_Y], &out = launch[TERN_AXPBY_OUT];
  const Dense dense = make_dense({&out, &x, &y});
  launch.call(0).arg(x).arg(y).arg(out).arg(dense).arg(attrs.a).arg(attrs.b).run(dense.walk.units, kDenseThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_AXPBY, "axpby", supports, nullptr, functions, run}};

}  // namespace

KernelList axpby_kernels() { return kKernels; }

}  // namespace tern::cuda
