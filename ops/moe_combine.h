// moe_combine: y[r] = sum over i of weights[r, i] x[places[r, i]]: what a row's experts gave, put together again.
//
// Shapes: x [rows, top_k, width], seen as [rows top_k, width] in order of experts; places [rows, top_k] i32, which name
//   each row of x once (ops/moe_permute.h); weights [rows, top_k] f32, or absent: all 1; y [rows, width].
// Dtypes: float; sums are fp32. Accumulate: y + the above, in fp32.
// Aliasing: none. Determinism: terms are added in order of i.
// Backward: moe_combine_backward. Decomposition: accumulating: moe_combine into fp32, then axpby.
// Tolerance: u(y) |y| + u32 growth(top_k) sum |weights x|.
//
// moe_combine_backward: dx[places[r, i]] = weights[r, i] dy[r]; dweights[r, i] = dy[r] . x[places[r, i]], where x and
//   dweights come together or not at all. The rest as above. Without them it is moe_scatter, the way to the experts of
//   rows that are weighted before them (Llama 4).
// Backward: what is given to dx and dweights goes back through both formulas, each of which is linear: ddy[r] = sum
// over
//   i of weights[r, i] gdx[places[r, i]] + gdweights[r, i] x[places[r, i]], by moe_combine; the weights' is dy[r] .
//   gdx[places[r, i]], x's gdweights[r, i] dy[r], by this op.
// Tolerance: dx: u32 |dx|; dweights: u32 growth(width) sum |dy x|.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct MoeCombineOptions {
  Value weights;  // [rows, top_k]; may be absent
  tern_dtype out = TERN_F32;
  Value into;  // [rows, width]: adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value moe_combine(Emitter& emitter, Value x, Value places, const MoeCombineOptions& options);

// y[places[r, i]] = weights[r, i] x[r], [rows, top_k, width]: each row to the places of its experts.
struct MoeScatterOptions {
  Value weights;  // [rows, top_k]; may be absent
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
[[nodiscard]] Value moe_scatter(Emitter& emitter, Value x, Value places, const MoeScatterOptions& options);

}  // namespace tern::ops
