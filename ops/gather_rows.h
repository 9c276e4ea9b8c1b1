// gather_rows: y[r] = x[index[r]]; a row of zeros where index[r] < 0.
//
// Shapes: x [n, ...], index [rows] i32, y [rows, ...]. index[r] < n is the caller's duty.
// Dtypes: any; y has x's.
// Aliasing: none. Determinism: always the same bits. Row invariant.
// Backward: dx = scatter_add_rows(dy, index).
// Decomposition: none.
// Tolerance: none: a copy.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

[[nodiscard]] Value gather_rows(Emitter& emitter, Value x, Value index, std::uint32_t needs = 0);

}  // namespace tern::ops
