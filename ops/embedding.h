// embedding: y[r] = table[ids[r]]; a row of zeros where ids[r] is -1: the id lies in another shard of the table.
//
// Shapes: table [vocab, width], quantised or not; ids [rows] i32 from -1 to below vocab: the caller's duty; y [rows,
//   width].
// Dtypes: float; a quantised row is expanded to fp32, then rounded to y's dtype.
// Aliasing: none. Determinism: always the same bits. Row invariant.
// Backward: dtable = scatter_add_rows(dy, ids) in fp32, added to what is there; a quantised table is frozen.
// Decomposition: dequantize, then embedding; unquantised: gather_rows, then cast_copy.
// Tolerance: none: exactly the rounded value.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

[[nodiscard]] Value embedding(Emitter& emitter, Value table, Value ids, tern_dtype out, std::uint32_t needs = 0);

}  // namespace tern::ops
