// sum_squares: out = the sum of x^2: what clipping a gradient by its norm needs.
//
// Shapes: x any; out [1] f32.
// Dtypes: float; squares and sums are fp32 (gradients whose square overflows give infinity).
// Accumulate: out + the sum, so that many tensors share one out.
// Aliasing: none. Determinism: a fixed order where `deterministic` is asked.
// Backward: dx = 2 x dout.
// Decomposition: mul(x, x) and row_sum twice where x is contiguous.
// Tolerance: u32 growth(elements) sum x^2.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

// `into` [1] may be absent.
[[nodiscard]] Value sum_squares(Emitter& emitter, Value x, Value into = {}, std::uint32_t needs = 0);

}  // namespace tern::ops
