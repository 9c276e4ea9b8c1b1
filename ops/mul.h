// mul: out = x * y.
//
// Shapes: all alike, any rank; y broadcasts by strides of 0.
// Dtypes: float, each its own; computed in fp32, rounded once.
// Accumulate: out + x y.
// Aliasing: out may be x or y where dtype and strides are the same.
// Determinism: always the same bits on one device. Row invariant.
// Backward: dx = dout y, dy = dout x, added to what is there. A broadcast y: for each place that it was read at.
// Decomposition: accumulating: mul into fp32, then axpby.
// Tolerance: u(out) |out| + u32 growth(1) |x y|.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct MulOptions {
  tern_dtype out = TERN_F32;
  Value into;  // adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value mul(Emitter& emitter, Value x, Value y, const MulOptions& options);

}  // namespace tern::ops
