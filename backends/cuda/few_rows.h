// Few rows by a quantised weight as it is stored: cu/few_rows.cu, which matmul_q and grouped_matmul have in common.
#pragma once

#include <string>

#include "backends/cuda/kernel.h"

namespace tern::cuda {

// Rows of x that go together: what a list of experts' tiles is cut by.
inline constexpr std::int64_t kFewRows = 8;

// y = x w^T + bias, or added to y. Shapes as the op has them, x and y [rows, parts, ...] where rows belong to experts.
struct FewCall {
  const TensorView* x = nullptr;     // [m, k] or [m / parts, parts, k]
  const TensorView* w = nullptr;     // [n, k], of experts [experts n, k]
  const TensorView* bias = nullptr;  // [n], of experts [experts, n]; may be absent
  const TensorView* y = nullptr;
  tern_dtype compute = TERN_F32;
  std::int64_t n = 0;  // of one expert
  Place tiles = 0;     // of experts: first row, end, expert (-1: none), 0, as int; none of more than kFewRows
  std::int64_t num_tiles = 0;
};
// Whether there are few enough outputs; `compute` is f32, bf16 or f16.
[[nodiscard]] bool takes_few_rows(std::int64_t n);
[[nodiscard]] std::string few_rows_function(tern_packing packing, tern_dtype compute);
void run_few_rows(Call call, const FewCall& product);

}  // namespace tern::cuda
