// softcap: y = cap tanh(x / cap): x itself where it is small, never beyond cap ("Gemma 2", 2024).
//
// Shapes: x and y alike, any rank; strides are free. cap: finite, above 0.
// Dtypes: float; computed in fp32, rounded once. tanh is within 4 ulp of fp32.
// Aliasing: y may be x where dtype and strides are the same.
// Determinism: always the same bits on one device. Row invariant.
// Backward: dx = dy - dy y^2 / cap^2, from y as it was stored, added to what is there.
// Decomposition: none.
// Tolerance: u(y) |y| + u32 growth(1) (9 |y| + |x| (1 - (y / cap)^2)).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct SoftcapOptions {
  float cap = 0.0F;  // above 0
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
[[nodiscard]] Value softcap(Emitter& emitter, Value x, const SoftcapOptions& options);

}  // namespace tern::ops
