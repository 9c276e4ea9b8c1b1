// index_topk_mask_paged: index_topk_mask over keys that lie in blocks, as attention_paged reads them.
//
// Shapes: k_cache [blocks, block_size, 1, index_dim]; block_table [sequences, max_blocks] i32; kv_lens [sequences] i32
//   (also in host_args); q, weights, cu_seqlens_q and mask as in index_topk_mask. Key j of sequence b lies in block
//   block_table[b, j / block_size] at j % block_size; query row i of b stands at kv_lens[b] - rows of b + i. kv_lens
//   counts this step's rows, which kv_write has stored. Unused entries of the table name any block: they, block 0 and
//   memory of the cache beyond kv_lens are not read.
// The rest is index_topk_mask's: what is visible, ties, dtypes, needs and tolerance.
// Aliasing: none. Backward: none. Decomposition: none.
#pragma once

#include "ops/attention_paged.h"
#include "ops/index_topk_mask.h"

namespace tern::ops {

// Gives mask [q_rows, max_seqlen_k] bool.
[[nodiscard]] Value index_topk_mask_paged(Emitter& emitter, const IndexTopk& index, Value k_cache,
                                          const PagedLengths& lengths, std::uint32_t needs = 0);

}  // namespace tern::ops
