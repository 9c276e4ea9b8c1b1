#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) { return Check(desc, reason).floats({TERN_FILL_Y}).ok(); }

std::vector<Function> functions(const PlanDesc& desc) {
  return {{"fill", "fill", Defines().tensor("y", desc, TERN_FILL_Y).text()}};
}

void run(const Launch& launch) {
  const TensorView& y = launch[TERN_FILL_Y];
  const Walk walk = make_walk(launch.device(), {&y});
  launch.call(0)
      .arg(y)
      .arg(walk)
      .arg(launch.attr<tern_fill_attrs>().value)
      .run(walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_FILL, "fill", supports, nullptr, functions, run}};

}  // namespace

KernelList fill_kernels() { return kKernels; }

}  // namespace tern::opencl
