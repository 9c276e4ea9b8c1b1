// matmul_q: y = x w^T + bias, or y = x w, with a weight that is expanded from its packing on the way.
//
// Shapes: w [out, in]; transpose_w 1 (forward): x [rows, in], y [rows, out], bias [out]; 0 (gradient of the input):
//   x [rows, out], y [rows, in], no bias.
// Dtypes: float. w is expanded to fp32 (each element rounded once) and then, like x, rounded to `compute`; products
//   accumulate in fp32. w may also be unquantised.
// Accumulate: y + the above, in fp32.
// Layouts: w may be packed by the device. Aliasing: none.
// Determinism: a fixed order where `deterministic` is asked. Row invariant where that is.
// Backward: dx = matmul_q(dy, w) with the other transpose_w, dbias = row_sum(dy, axis 0); a quantised weight is frozen.
// Decomposition: dequantize to `compute`, then matmul; not for a private layout.
// Tolerance: u(y) |y| + u32 growth(inner) (sum |x w| + |bias|).
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
