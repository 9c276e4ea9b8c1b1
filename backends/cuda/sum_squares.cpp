#include <algorithm>

#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

constexpr std::int64_t kParts = 1024;  // blocks that sum apart, at most

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_SUM_SQUARES_X})
      .dtype(TERN_SUM_SQUARES_OUT, TERN_F32)
      .dim(TERN_SUM_SQUARES_OUT, 0, 1)
      .ok();
}

std::uint64_t workspace(const PlanDesc& /*desc*/) { return kParts * sizeof(float); }

Functions functions(const PlanDesc& /*desc*/) { return {"sum_squares_part", "sum_squares_whole"}; }

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SUM_SQUARES_X], &out = launch[TERN_SUM_SQUARES_OUT];
  const Dense dense = make_dense({&x});
  const std::int64_t parts = std::min(kParts, parts_of(dense.walk.units, kDenseThreads));
  launch.call(0).arg(x).arg(launch.workspace()).arg(dense).run({parts, 1, 1}, {kDenseThreads, 1, 1});
  launch.call(1).arg(launch.workspace()).arg(out).arg(parts).run({1, 1, 1}, {kDenseThreads, 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SUM_SQUARES, "sum_squares", supports, workspace, functions, run}};

}  // namespace

KernelList sum_squares_kernels() { return kKernels; }

}  // namespace tern::cuda
