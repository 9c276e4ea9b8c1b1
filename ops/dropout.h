// dropout: y = keep ? x / (1 - rate) : 0.
//
// Shapes: x, y [rows, width]; keys [rows] i64; mask [rows, width] u8, 1 keeps.
// keep = mask where it is given, else uniform24(philox(key = keys[row], counter = {feature / 4, site, 0, 0})[feature %
// 4])
//   >= rate (base/philox.h): a row's bits depend on its key alone, so neither packing nor batching can change them. A
//   device without TERN_CAP_PHILOX needs the mask.
// Dtypes: float; computed in fp32, rounded once.
// Accumulate: y + the above.
// Aliasing: y may be x where dtype and strides are the same.
// Determinism: always the same bits. Row invariant.
// Backward: dropout of dy with the same keys, site and mask, added to what is there.
// Decomposition: with a mask: cast_copy of the mask, mul, axpby (a dropped NaN or infinity then stays NaN).
// Tolerance: u(y) |y| + u32 growth(1) |x / (1 - rate)|; dropped elements are exactly 0.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct DropoutOptions {
  float rate = 0.0F;
  std::int32_t site = 0;
  Value mask;  // may be absent
  tern_dtype out = TERN_F32;
  Value into;  // adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value dropout(Emitter& emitter, Value x, Value keys, const DropoutOptions& options);

}  // namespace tern::ops
