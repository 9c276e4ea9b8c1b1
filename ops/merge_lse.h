// merge_lse: lse[r] = log sum over shards s of row_sum[s, r] exp(row_max[s, r]): the log sum exp of a row's logits from
// what each shard of the vocabulary knows of its own (ops/linear_cross_entropy.h). Shards whose row_sum is 0 are left
// out; lse is 0 where all are: linear_cross_entropy left out the row.
//
// Shapes: row_max and row_sum [shards, rows] f32, lse [rows] f32.
// Aliasing: none. Determinism: shards are added in their order, from the largest row_max on. Row invariant.
// Backward: none: linear_cross_entropy takes lse as a constant and gives the whole gradient. Decomposition: none.
// Tolerance: u32 (|lse| + |row_max| + growth(shards) + the share of each shard times |row_max - the largest|).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

[[nodiscard]] Value merge_lse(Emitter& emitter, Value row_max, Value row_sum, std::uint32_t needs = 0);

}  // namespace tern::ops
