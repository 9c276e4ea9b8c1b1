#include <algorithm>

#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

constexpr std::int64_t kGroups = 256;  // that sum apart, each its own chunks in turn

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_SUM_SQUARES_X})
      .dtype(TERN_SUM_SQUARES_OUT, TERN_F32)
      .dim(TERN_SUM_SQUARES_OUT, 0, 1)
      .ok();
}

std::uint64_t workspace(const PlanDesc& /*desc*/) { return kGroups * sizeof(float); }

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("GROUP", reducing_group(desc.device)).set("GROUPS", kGroups).tensor("x", desc, TERN_SUM_SQUARES_X);
  return {{"sum_squares", "sum_part", defines.text()}, {"sum_squares", "sum_parts", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SUM_SQUARES_X], &out = launch[TERN_SUM_SQUARES_OUT];
  Walk walk = make_walk(launch.device(), {&x});
  const std::int64_t group = reducing_group(launch.device());
  walk.chunk = std::max<std::int64_t>(1, std::min<std::int64_t>(walk.inner, 4096));  // of a whole group
  walk.units = walk.units == 0 ? 0 : walk.units / walk.chunks * parts_of(walk.inner, walk.chunk);
  walk.chunks = parts_of(walk.inner, walk.chunk);
  launch.call(0).arg(x).arg(launch.workspace()).arg(walk).run(kGroups * group, group);
  launch.call(1).arg(launch.workspace()).arg(out).arg(std::int32_t{launch.accumulates(TERN_SUM_SQUARES_OUT)}).run(1, 1);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SUM_SQUARES, "sum_squares", supports, workspace, functions, run}};

}  // namespace

KernelList sum_squares_kernels() { return kKernels; }

}  // namespace tern::opencl
