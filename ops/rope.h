// rope: rotates each pair (u, w) of a head's first `rotary` features to (u cos - w sin, w cos + u sin); the rest is
// kept. Su et al., "RoFormer", 2021.
//
// Shapes: x, y [rows, heads, head_dim]; positions [rows] i32 in [0, positions): the caller's duty; cos, sin
//   [positions, rotary / 2] f32, with rotary <= head_dim. interleaved 0: pairs (i, i + rotary/2); 1: pairs (2i, 2i +
//   1). The tables carry every scaling of frequencies. inverse 1 rotates back.
// Dtypes: float; computed in fp32, rounded once.
// Accumulate: y + the above.
// Aliasing: y may be x where dtype and strides are the same.
// Determinism: always the same bits on one device. Row invariant.
// Backward: rope of dy with the other `inverse`, added to what is there.
// Decomposition: accumulating: rope into fp32, then axpby.
// Tolerance: u(y) |y| + u32 growth(1) (|u cos| + |w sin|).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct RopeOptions {
  bool interleaved = false;
  bool inverse = false;
  tern_dtype out = TERN_F32;
  Value into;  // adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value rope(Emitter& emitter, Value x, Value positions, Value cos, Value sin, const RopeOptions& options);

}  // namespace tern::ops
