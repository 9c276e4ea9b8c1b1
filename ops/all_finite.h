// all_finite: out = 1 if x holds neither NaN nor infinity, else 0.
//
// Shapes: x any; out [1] i32. Dtypes: float. Of a dynamic dimension only the valid entries are looked at.
// Accumulate: logical and with what out holds, so that many tensors share one out (set to 1 before).
// Aliasing: none. Determinism: always the same. Backward: none. Decomposition: none. Tolerance: exact.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

// `into` [1] may be absent.
[[nodiscard]] Value all_finite(Emitter& emitter, Value x, Value into = {}, std::uint32_t needs = 0);

}  // namespace tern::ops
