// Few rows by a quantised weight as it is stored: cu/few_rows.cuh, which matmul_q and
// grouped_matmul have in common.
#pragma once

#include <string>

#include "backends/cuda/kernel.h"

namespace tern::cuda {

// How a product is cut: rows of x that go together, which a list of experts' tiles is cut by.
struct FewPlan {
  tern_compute compute = TERN_COMPUTE_F32;
  std::int64_t rows = 0;     // 0: it can't be done: k or n is too large
  std::uint64_t shared = 0;  // bytes that a block needs
};
// `rows`: of x at most. Whatever they are, a row's bits are the same. `compute` is f32, bf16, f16 or x15.
[[nodiscard]] FewPlan plan_few_rows(tern_compute compute, std::int64_t rows, std::int64_t n, std::int64_t k,
                                    const Facts& facts);
[[nodiscard]] std::string few_rows_function(const FewPlan& plan, tern_packing packing);

// y = x w^T + bias, or added to y. Shapes as the op has them, x and y [rows, parts, ...] where rows belong to experts.
struct FewCall {
  const TensorView* x = nullptr;     // [m, k] or [m / parts, parts, k]
  const TensorView* w = nullptr;     // [n, k], of experts [experts n, k]
  const TensorView* bias = nullptr;  // [n], of experts [experts, n]; may be absent
  const TensorView* y = nullptr;
  std::int64_t n = 0;  // of one expert
  Place tiles = 0;     // of experts: first row, end, expert (-1: none), 0, as int; none of more than FewPlan::rows
  std::int64_t num_tiles = 0;
};
void run_few_rows(Call call, const FewPlan& plan, const FewCall& product);

}  // namespace tern::cuda
