// linear_cross_entropy: z = softcap(h w^T); loss = sum over rows of weight (log sum exp z - z[target]).
// A device never holds rows x vocab: it works in panels (Wijmans et al., "Cut Your Losses", 2024).
//
// Shapes: h [rows, width], w [vocab, width] (may be quantised, may be packed), targets [rows] i32 in [0, vocab) or -1:
// the
//   target lies in another shard, weights [rows] f32; loss [1] f32; row_max, row_sum, row_target [rows] f32; dh
//   [rows, width]; dw [vocab, width] f32. vocab >= 1.
// lse [rows] f32 is given where w is one shard of a vocabulary: the log sum exp of a row's logits in all shards, merged
//   by the host or by a collective from a first call's statistics. Then dh and dw are the shard's parts (dh is summed
//   over the shards), and the loss counts the rows whose target lies in this shard: its sum over the shards is the
//   loss.
// A row of weight 0 is left out: it adds nothing, its statistics and dh are 0, and its h, target and lse are not looked
// at. target -1: z[target] counts as 0 in the loss and in row_target, and the gradient has the softmax alone; merge
// shards
//   by row_max, row_sum = sum exp(z - row_max) and row_target, which are this shard's own whether lse is given or not.
//   So without lse the loss of such a row means nothing, and a call that is cut into parts leaves it out.
// dh and dw are the gradients of `loss` for an upstream gradient of 1: the forward may give them at once, as weights
//   already carry every factor of the step. dh and dw of this call do not contain what an accumulating loss held.
// Dtypes: float; h and w (expanded) are rounded to `compute`, as is the logits' gradient before its products; fp32
// sums. Accumulate: loss, dw. Aliasing: none. Determinism: a fixed order where asked; row statistics and dh row
// invariant where asked. Backward: dh and dw of the forward, times dloss unless that is the loss itself. Decomposition:
// a quantised w: dequantize first. Accumulating: into fresh tensors, then axpby. Tolerance: propagated in
// ops/ref/linear_cross_entropy.cpp with growth(max(width, vocab)); dw: growth(rows) on top.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct LinearCrossEntropyOptions {
  tern_compute compute = TERN_COMPUTE_F32;
  float softcap = 0.0F;
  bool row_statistics = false;
  bool dh = false;
  bool dw = false;
  Value lse;        // [rows] f32, merged over the vocabulary's shards; may be absent
  Value loss_into;  // adds to it
  Value dw_into;    // adds to it
  tern_dtype dh_dtype = TERN_F32;
  std::uint32_t needs = 0;
};
struct LinearCrossEntropyOut {
  Value loss;
  Value row_max;  // absent unless asked for, as the rest
  Value row_sum;
  Value row_target;
  Value dh;
  Value dw;
};
[[nodiscard]] LinearCrossEntropyOut linear_cross_entropy(Emitter& emitter, Value h, Value w, Value targets,
                                                         Value weights, const LinearCrossEntropyOptions& options);

}  // namespace tern::ops
