// index_topk_mask: the keys that attention reads, chosen by a small indexer: for each query row
//   s_j = sum over heads h of weights[h] relu(q[h] k_j), and mask[row, j] = 1 at the `topk` visible keys of largest s.
// DeepSeek-AI, "DeepSeek-V3.2: Pushing the Frontier of Open Large Language Models", 2025: the lightning indexer. A
// factor of all scores, as the paper has two, changes no choice and is left out.
//
// The mask is attention's own argument, beside causal = 1: so every device that attends behind a mask attends to chosen
// keys, forward and backward, and a device that can read the chosen keys alone sees them in the mask.
//
// Shapes: q [q_rows, index_heads, index_dim], weights [q_rows, index_heads], k [k_rows, index_dim], one for all heads;
//   cu_seqlens_q and cu_seqlens_k [sequences + 1] i32 (also in host_args), rising, first 0; mask [q_rows, mask_keys]
//   bool, mask_keys >= max_seqlen_k.
// Visible: row i of a sequence sees keys j <= i + len_k - len_q; the host promises len_k >= len_q of each sequence.
// Every
//   other element of a row is 0, and so are rows outside of every sequence. A row that sees no more than topk keys has
//   them all.
// Ties: by rising j. A score that is NaN counts as -infinity; relu(x) is x where x > 0, else 0.
// Dtypes: q, weights and k float; products and sums in fp32.
// Dynamic: q_rows and k_rows; nothing beyond the last sequence is read.
// Aliasing: none. Determinism: always the same bits on one device. Row invariant where asked.
// Backward: none: a choice has no slope, and models train their indexer, where they do, by a loss of its own.
// Decomposition: none.
// Tolerance: exact wherever fp32 sums decide as exact ones do.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct IndexTopk {
  Value q;                        // [q_rows, index_heads, index_dim]
  Value weights;                  // [q_rows, index_heads]
  std::int32_t topk = 0;          // at least 1
  std::int32_t max_seqlen_q = 0;  // no sequence has more query rows
  std::int32_t max_seqlen_k = 0;  // as many keys the mask has
};
// Gives mask [q_rows, max_seqlen_k] bool.
[[nodiscard]] Value index_topk_mask(Emitter& emitter, const IndexTopk& index, Value k, Value cu_seqlens,
                                    std::uint32_t needs = 0);

}  // namespace tern::ops
