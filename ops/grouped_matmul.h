// grouped_matmul: y = x w[e]^T + bias[e], or y = x w[e], of the rows that each expert e has.
//
// Shapes: w [experts, out, in], quantised [experts out, in]; offsets [experts + 1] i32: expert e has the rows from
//   offsets[e] to offsets[e + 1] of x seen as [rows top_k, ...]. transpose_w 1 (forward): x [rows, top_k, in], y [rows,
//   top_k, out], bias [experts, out]; 0 (gradient of the input): x [rows, top_k, out], y [rows, top_k, in], no bias.
//   offsets begin with 0, rise, and end with rows top_k at most; rows of no expert become zero (accumulating: stay).
// Dtypes: float. A quantised w is expanded to fp32 (each element rounded once) and then, like x, rounded to `compute`;
//   products accumulate in fp32. Accumulate: y + the above, in fp32.
// Aliasing: none. Determinism: a fixed order where `deterministic` is asked. A row's bits depend on no other row where
//   `row_invariant` is.
// Backward: dx = grouped_matmul(dy, w) with the other transpose_w; dw and dbias by grouped_matmul_backward; a quantised
//   weight is frozen.
// Decomposition: accumulating: into fp32, then axpby; a quantised w: dequantize to `compute` first.
// Tolerance: u(y) |y| + u32 growth(inner) (sum |x w| + |bias|).
//
// grouped_matmul_backward: dw[e] = sum over the rows of e of dy^T x, dbias[e] = sum of dy; both fp32, either may be
//   absent, but not both; both accumulate. dy and x are rounded to `compute` for dw, and dy is not for dbias.
// Tolerance: u32 growth(rows of e) sum |dy x|; dbias: u32 growth(rows of e) sum |dy|.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct GroupedMatmulOptions {
  bool transpose_w = true;
  tern_compute compute = TERN_COMPUTE_F32;
  tern_dtype out = TERN_F32;
  Value bias;  // may be absent
  Value into;  // adds to it
  std::uint32_t needs = 0;
};
// The sizes of w by a call's descs: a quantised one is a single matrix.
struct GroupedSizes {
  std::int64_t experts = 0;
  std::int64_t out = 0;
  std::int64_t in = 0;
};
[[nodiscard]] GroupedSizes grouped_sizes(const TensorDesc& w, const TensorDesc& offsets);

[[nodiscard]] Value grouped_matmul(Emitter& emitter, Value x, Value w, Value offsets,
                                   const GroupedMatmulOptions& options);

}  // namespace tern::ops
