// cast_copy: y = x in y's dtype and layout of strides.
//
// Shapes: x and y alike, any rank; each with strides of its own, so it also makes tensors contiguous.
// Dtypes: any to any. Floats round to nearest even (overflow: infinity, E4M3: NaN); floats to integers go towards zero
// and
//   saturate, NaN gives 0; to bool: not equal to zero; integers to integers keep the low bits.
// Accumulate: float y only: y + x in fp32, then rounded.
// Aliasing: y may be x where both have the same dtype and strides.
// Determinism: always the same bits. Row invariant.
// Backward: dx = cast_copy(dy) in x's dtype; integers have none.
// Decomposition: none; accumulating: cast_copy to fp32, then axpby.
// Tolerance: none: exactly the rounded value (accumulating: one fp32 addition, one rounding).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct CastCopyOptions {
  tern_dtype out = TERN_F32;
  Value into;  // adds to it
  Value at;    // writes there, in that dtype
  std::uint32_t needs = 0;
};
[[nodiscard]] Value cast_copy(Emitter& emitter, Value x, const CastCopyOptions& options);

}  // namespace tern::ops
