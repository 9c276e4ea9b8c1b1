// lora_shrink: h = alpha dropout(x) a^T, the narrow half of a low-rank adapter (Hu et al., "LoRA: Low-Rank Adaptation of
// Large Language Models", 2021): x is read once, and what dropout leaves of it is never stored.
//
// Shapes: x [rows, in]; a [rank, in]; keys [rows] i64 and mask [rows, in] u8 as in dropout (ops/dropout.h), which drops
//   the same elements; without keys nothing is dropped, and rate is 0; h [rows, rank].
// Dtypes: float; computed in fp32, rounded once.
// Aliasing: none. Determinism: always the same bits on one device. Row invariant.
// Backward: lora_shrink_backward.
// Decomposition: dropout into fp32, then matmul.
// Tolerance: u(h) |h| + u32 growth(in + 3) sum of |alpha x a| / (1 - rate) over what is kept.
//
// lora_shrink_backward: dx = alpha dropout(dh a); da = alpha dh^T dropout(x), of which one may be absent.
//
// Shapes: dh [rows, rank]; x, a, keys, mask as above; dx [rows, in]; da [rank, in] f32.
// Dtypes: float, as above. Accumulate: either adds. Aliasing: none.
// Determinism: always the same bits on one device. Backward: none. Decomposition: dropout and matmul.
// Tolerance: as above, with growth(rank + 3) for dx and growth(rows + 3) for da.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct LoraShrinkOptions {
  float rate = 0.0F;
  std::int32_t site = 0;
  float alpha = 1.0F;
  Value keys;  // absent: nothing is dropped
  Value mask;  // may be absent
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
[[nodiscard]] Value lora_shrink(Emitter& emitter, Value x, Value a, const LoraShrinkOptions& options);

}  // namespace tern::ops
