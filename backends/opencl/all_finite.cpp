#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_ALL_FINITE_X})
      .dtype(TERN_ALL_FINITE_OUT, TERN_I32)
      .dim(TERN_ALL_FINITE_OUT, 0, 1)
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  const std::string options = Defines().tensor("x", desc, TERN_ALL_FINITE_X).text();
  return {{"all_finite", "begin", options}, {"all_finite", "look", options}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_ALL_FINITE_X], &out = launch[TERN_ALL_FINITE_OUT];
  launch.call(0).arg(out).arg(std::int32_t{launch.accumulates(TERN_ALL_FINITE_OUT)}).run(1, 1);
  const Walk walk = make_walk(launch.device(), {&x});
  launch.call(1).arg(x).arg(out).arg(walk).run(walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ALL_FINITE, "all_finite", supports, nullptr, functions, run}};

}  // namespace

KernelList all_finite_kernels() { return kKernels; }

}  // namespace tern::opencl
