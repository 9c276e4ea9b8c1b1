#include <cmath>

#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const float cap = desc.attrs<tern_softcap_attrs>().cap;
  return Check(desc, reason)
      .that(cap > 0.0F && std::isfinite(cap), "cap is not a finite number above 0")
      .floats({TERN_SOFTCAP_X, TERN_SOFTCAP_Y})
      .same_shape({TERN_SOFTCAP_X, TERN_SOFTCAP_Y})
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"softcap"}; }

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SOFTCAP_X], &y = launch[TERN_SOFTCAP_Y];
  const Walk walk = make_walk({&y, &x});
  const float cap = launch.attr<tern_softcap_attrs>().cap;
  launch.call(0).arg(x).arg(y).arg(walk).arg(cap).run(walk.units, kPlainThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SOFTCAP, "softcap", supports, nullptr, functions, run}};

}  // namespace

KernelList softcap_kernels() { return kKernels; }

}  // namespace tern::cuda
