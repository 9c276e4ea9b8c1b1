#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& row_max = desc.arg(TERN_MERGE_LSE_ROW_MAX);
  return Check(desc, reason)
      .dtype(TERN_MERGE_LSE_ROW_MAX, TERN_F32)
      .dtype(TERN_MERGE_LSE_ROW_SUM, TERN_F32)
      .dtype(TERN_MERGE_LSE_LSE, TERN_F32)
      .rank(TERN_MERGE_LSE_ROW_MAX, 2)
      .rank(TERN_MERGE_LSE_ROW_SUM, 2)
      .rank(TERN_MERGE_LSE_LSE, 1)
      .dim(TERN_MERGE_LSE_ROW_SUM, 0, row_max.shape[0])
      .dim(TERN_MERGE_LSE_ROW_SUM, 1, row_max.shape[1])
      .dim(TERN_MERGE_LSE_LSE, 0, row_max.shape[1])
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"merge_lse"}; }

void run(const Launch& launch) {
  const TensorView &row_max = launch[TERN_MERGE_LSE_ROW_MAX], &row_sum = launch[TERN_MERGE_LSE_ROW_SUM];
  const TensorView& lse = launch[TERN_MERGE_LSE_LSE];
  Call call = launch.call(0);
  call.arg(row_max.planes[0]).arg(row_sum.planes[0]).arg(lse.planes[0]).arg(row_max.dim(0)).arg(row_max.dim(1));
  call.arg(row_max.stride(0)).arg(row_max.stride(1)).arg(row_sum.stride(0)).arg(row_sum.stride(1)).arg(lse.stride(0));
  call.run(row_max.dim(1), kPlainThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MERGE_LSE, "merge_lse", supports, nullptr, functions, run}};

}  // namespace

KernelList merge_lse_kernels() { return kKernels; }

}  // namespace tern::cuda
