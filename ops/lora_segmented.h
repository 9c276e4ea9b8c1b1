// lora_segmented: y[r] = b[s] (a[s] x[r]), s = slots[r]: the products of low-rank adapters where each row has its own
// (Chen et al., "Punica: Multi-Tenant LoRA Serving", arXiv 2310.18547, whose SGMV and BGMV this is in one).
//
// Shapes: x [rows, in]; a [num_slots, rank, in]; b [num_slots, out, rank]; slots [rows] i32, each in [0, num_slots] in
//   any order, where num_slots means no adapter: such a row is 0 (accumulating: stays); y [rows, out]. An adapter of a
//   smaller rank has zeros in the rest, and its scaling is folded into b by whoever loads it.
// Dtypes: float, each its own. a[s] x[r] is summed in fp32 and stays fp32; b's sum is fp32, and y is rounded once.
// Accumulate: y + the above, in fp32. Aliasing: none.
// Determinism: always the same bits on one device. Row invariant: a row has the same bits alone and beside rows of
//   other slots, always by a kernel of this op, and where `row_invariant` is asked by its decomposition.
// Backward: none, as the adapters of requests are frozen. A slot that no row names is not read.
// Decomposition: moe_permute with num_slots + 1 experts, the last of which has no weights; two grouped_matmul;
//   moe_combine.
// Tolerance: u(y) |y| + u32 growth(in + rank + 3) sum of |b a x|, each element's own.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct LoraSegmentedOptions {
  tern_dtype out = TERN_F32;
  Value into;  // [rows, out]: adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value lora_segmented(Emitter& emitter, Value x, Value a, Value b, Value slots,
                                   const LoraSegmentedOptions& options);

}  // namespace tern::ops
