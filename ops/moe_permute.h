// moe_permute: puts each row beside the others that go to the same expert, once for each expert that it goes to.
//
// Shapes: x [rows, width], experts [rows, top_k] i32, y [rows, top_k, width], places [rows, top_k] i32, offsets
//   [experts + 1] i32. y is seen as [rows top_k, width]: its rows are in order of experts, and the rows of one expert
//   in order of (row, choice). places[r, i] is the row of y that choice i of row r became; expert e has the rows
//   offsets[e] to offsets[e + 1] of y; the last offset is rows top_k.
// Dtypes: float, copied. Dynamic: rows of x beyond the count go nowhere, and the last offset is count top_k.
// Aliasing: none. Deterministic.
// Backward: dx = moe_combine(dy, places). Decomposition: none.
// Tolerance: exact.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct MoePermute {
  Value y;        // [rows, top_k, width]
  Value places;   // [rows, top_k] i32
  Value offsets;  // [num_experts + 1] i32
};
[[nodiscard]] MoePermute moe_permute(Emitter& emitter, Value x, Value experts, std::int64_t num_experts,
                                     std::uint32_t needs = 0);

}  // namespace tern::ops
