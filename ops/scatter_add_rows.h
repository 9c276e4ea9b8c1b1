// scatter_add_rows: y[i] = sum of x[r] over the rows r with index[r] == i; rows with index[r] < 0 are skipped.
//
// Shapes: x [rows, width], index [rows] i32, y [n, width]. index[r] < n is the caller's duty. Rows of y that nothing
//   points at become zero (accumulating: stay).
// Dtypes: float; sums are fp32.
// Accumulate: y holds its old value as the first term.
// Aliasing: none.
// Determinism: where `deterministic` is asked, terms are added in the order of r.
// Backward: dx = gather_rows(dy, index), in x's dtype.
// Decomposition: accumulating: scatter_add_rows into fp32, then axpby.
// Tolerance: u(y) |y| + u32 growth(rows) sum |x[r]|.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct ScatterAddRowsOptions {
  tern_dtype out = TERN_F32;
  Value into;  // [n, width]: adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value scatter_add_rows(Emitter& emitter, Value x, Value index, std::int64_t n,
                                     const ScatterAddRowsOptions& options);

}  // namespace tern::ops
