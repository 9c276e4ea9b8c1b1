// qk_norm_rope: y = rope(rms_norm(x over head_dim)), as Qwen3 does with its queries and keys.
//
// Shapes: x, y [rows, heads, head_dim], weight [head_dim], rstd [rows, heads] f32; positions, cos, sin as in rope.
// Without
//   these three nothing turns: the norm of each head alone. Without a weight, weight_offset alone is the factor: of 1 /
//   sqrt(head_dim), with eps / head_dim, y = x / sqrt(sum(x^2) + eps), the L2 norm.
// Dtypes: float; fp32 throughout, nothing is rounded between norm and rotation.
// Aliasing: y may be x where dtype and strides are the same.
// Determinism: a fixed order where `deterministic` is asked. Row invariant where that is.
// Backward: qk_norm_rope_backward.
// Decomposition: rms_norm over [rows * heads, head_dim] into fp32, then rope; of a copy of x where it is not
//   contiguous. A weight of zeros where there is none.
// Tolerance: u(y) |y| + u32 growth(head_dim) (|u cos| + |w sin|) with u, w of size 2 |x rstd| (|weight| + |offset|).
//
// qk_norm_rope_backward: dn = rope(dy, inverse); then rms_norm_backward of dn on x, weight, rstd over each head;
//   dweight [head_dim] f32 sums over rows and heads and may accumulate; there is none without a weight.
//
// Shapes: dy, x, dx [rows, heads, head_dim]. Aliasing: dx may be dy. Determinism: as rms_norm_backward.
// Backward: none. Decomposition: rope into fp32, then rms_norm_backward, of contiguous copies as above. Of
//   dynamic rows dweight is summed apart, by mul and row_sum.
// Tolerance: as rms_norm_backward, with the rotation's terms.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct QkNormRopeOptions {
  float eps = 1e-6F;
  float weight_offset = 0.0F;
  bool interleaved = false;
  bool keep_rstd = true;  // a backward needs it
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
struct QkNormRopeOut {
  Value y;
  Value rstd;  // absent unless kept
};
// `weight` may be absent, and so may positions, cos and sin together.
[[nodiscard]] QkNormRopeOut qk_norm_rope(Emitter& emitter, Value x, Value weight, Value positions, Value cos, Value sin,
                                         const QkNormRopeOptions& options);

}  // namespace tern::ops
