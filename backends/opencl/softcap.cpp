#include <cmath>

#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const float cap = desc.attrs<tern_softcap_attrs>().cap;
  return Check(desc, reason)
      .that(cap > 0.0F && std::isfinite(cap), "cap is not a finite number above 0")
      .floats({TERN_SOFTCAP_X, TERN_SOFTCAP_Y})
      .same_shape({TERN_SOFTCAP_X, TERN_SOFTCAP_Y})
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.tensor("x", desc, TERN_SOFTCAP_X).tensor("y", desc, TERN_SOFTCAP_Y);
  return {{"softcap", "softcap", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SOFTCAP_X], &y = launch[TERN_SOFTCAP_Y];
  const Walk walk = make_walk(launch.device(), {&y, &x});
  const float cap = launch.attr<tern_softcap_attrs>().cap;
  launch.call(0).arg(x).arg(y).arg(walk).arg(cap).run(walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SOFTCAP, "softcap", supports, nullptr, functions, run}};

}  // namespace

KernelList softcap_kernels() { return kKernels; }

}  // namespace tern::opencl
