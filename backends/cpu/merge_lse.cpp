#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
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

void run(const KernelArgs& args) {
  const TensorView &row_max = args[TERN_MERGE_LSE_ROW_MAX], &row_sum = args[TERN_MERGE_LSE_ROW_SUM];
  const TensorView& lse = args[TERN_MERGE_LSE_LSE];
  const auto at = [](const TensorView& x, std::int64_t s, std::int64_t r) {
    return x.data<const float>()[s * x.stride(0) + r * x.stride(1)];
  };
  for (std::int64_t r = 0; r < row_max.dim(1); ++r) {
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t s = 0; s < row_max.dim(0); ++s) {
      if (at(row_sum, s, r) != 0.0F) largest = std::max(largest, at(row_max, s, r));
    }
    float sum = 0.0F;
    for (std::int64_t s = 0; s < row_max.dim(0); ++s) {
      if (at(row_sum, s, r) != 0.0F) sum += at(row_sum, s, r) * std::exp(at(row_max, s, r) - largest);
    }
    lse.data<float>()[r * lse.stride(0)] = sum == 0.0F ? 0.0F : largest + std::log(sum);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MERGE_LSE, "merge_lse", supports, nullptr, nullptr, run}};

}  // namespace

KernelList merge_lse_kernels() { return kKernels; }

}  // namespace tern::cpu
