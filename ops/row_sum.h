// row_sum: the sum of a matrix over one of its dimensions.
//
// Shapes: x [rows, width]; axis 1: out [rows]; axis 0: out [width]. Over a dynamic dimension only the valid entries
// count. Dtypes: float; sums are fp32. Accumulate: out holds its old value as the first term. Aliasing: none.
// Determinism: a fixed order where `deterministic` is asked. Row invariant over axis 1.
// Backward: dx = dout broadcast over the summed dimension.
// Decomposition: accumulating: row_sum into fp32, then axpby.
// Tolerance: u(out) |out| + u32 growth(terms) sum |x|.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct RowSumOptions {
  int axis = 1;
  tern_dtype out = TERN_F32;
  Value into;  // adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value row_sum(Emitter& emitter, Value x, const RowSumOptions& options);

}  // namespace tern::ops
