// matmul_q: y = x w^T + bias, or y = x w, with a weight that is expanded from its packing on the way.
//
// Shapes: w [out, in]; transpose_w 1 (forward): x [rows, in], y [rows, out], bias [out]; 0 (gradient of the input):
//   x [rows, out], y [rows, in], no bias.
// Dtypes: float. w is expanded to fp32 (each element rounded once) and then, like x, rounded to `compute`; products
//   accumulate in fp32. w may also be unquantised.
// x15: `compute` of the forward by a w in blocks of 32 elements or a multiple, or of whole numbers with scales for such
//   groups of a row (int8, AWQ, GPTQ). A block of 32 of a row of x, in the order of w's planes, with the
//   largest magnitude `most` is taken for q most / 16256, q the nearest whole number to x 16256 / most (computed in
//   fp32: near a tie either neighbour serves); for 0 where most < 2^-100, for NaN where one of it is not finite. q is
//   128 hi + lo in two int8, or an int16. A block's sum of q times w's codes is exact in int32; its scale, and its
//   minimum times the sum of q, are multiplied and added in fp32. No device has to have it.
// int8: as x15, for q most / 127, q the nearest whole number to x 127 / most. No device has to have it.
// Accumulate: y + the above, in fp32.
// Layouts: w may be packed by the device. Aliasing: none.
// Determinism: a fixed order where `deterministic` is asked. Row invariant where that is.
// Backward: dx = matmul_q(dy, w) with the other transpose_w (in f32 where the forward is in x15 or int8), dbias = row_sum(dy,
//   axis 0); a quantised weight is frozen.
// Decomposition: dequantize to `compute`, then matmul; not for a private layout, nor for x15 and int8.
// Tolerance: u(y) |y| + u32 growth(inner) (sum |x w| + |bias|); in x15 and int8 |w| counts what w is the sum of (its scaled code
//   and its minimum), and a q that is near a tie adds its block's step times |w|.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct MatmulQOptions {
  bool transpose_w = true;
  tern_compute compute = TERN_COMPUTE_F32;
  tern_dtype out = TERN_F32;
  Value bias;  // may be absent
  Value into;  // adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value matmul_q(Emitter& emitter, Value x, Value w, const MatmulQOptions& options);

}  // namespace tern::ops
