// attention_paged: attention over keys and values that lie in blocks: prefill chunks and decode in one batch.
// Kwon et al., "Efficient Memory Management for LLM Serving with PagedAttention", SOSP 2023.
//
// Shapes: q [q_rows, heads, head_dim]; k_cache [blocks, block_size, kv_heads, head_dim], v_cache [..., value_dim];
//   block_table [sequences, max_blocks] i32; cu_seqlens_q [sequences + 1] i32 and kv_lens [sequences] i32 (both also in
//   host_args); sinks [heads] f32; mask [q_rows, mask_keys] bool, mask_keys >= max_seqlen_k; out [q_rows, heads,
//   value_dim]; lse [q_rows, heads] f32.
// Key j of sequence b lies in block block_table[b, j / block_size] at j % block_size. kv_lens counts this step's rows,
//   which kv_write has stored: query row i of b stands at p = kv_lens[b] - rows of b + i. Visible keys, heads,
//   sinks, mask and empty rows as in attention: mask[q row, j] is of key j of the sequence, its history included.
//   Unused entries of the table name any block. They and memory of the caches beyond kv_lens are not read, and nobody's
//   keys lie in block 0 (kv_write.h).
// Caches of i8 or f8_e4m3 hold codes: a key or value is its code times the scale of its row and head, k_scale and
//   v_scale [blocks, block_size, kv_heads] f32, as kv_write made them. Codes are finite; a scale may be NaN.
// Dtypes: float; fp32 inside; p, or p times the scale of its value, may be rounded to q's dtype before the product with
//   v.
// Decoding is told from prefill by max_seqlen_q alone.
// Aliasing: none. Determinism: a fixed order where asked. Row invariant where asked.
// Backward: none. Decomposition: as attention.
// Tolerance: as attention, with growth(max(head_dim, max_seqlen_k)).
#pragma once

#include "ops/attention.h"

namespace tern::ops {

struct KvCache {
  Value k;             // [blocks, block_size, kv_heads, head_dim]
  Value v;             // [blocks, block_size, kv_heads, value_dim]
  Value k_scale = {};  // [blocks, block_size, kv_heads] f32, where the cache is of 8 bits; else absent
  Value v_scale = {};
};
// Whether floats are kept in a cache of this dtype as codes over a scale for each row of a head (ops/kv_write.h).
[[nodiscard]] constexpr bool has_scales(tern_dtype cache) { return cache == TERN_I8 || cache == TERN_F8_E4M3; }

struct PagedLengths {
  Value block_table;   // [sequences, max_blocks] i32
  Value cu_seqlens_q;  // [sequences + 1] i32
  Value kv_lens;       // [sequences] i32
};
// `options.keep_lse` asks for lse.
[[nodiscard]] AttentionOut attention_paged(Emitter& emitter, Value q, const KvCache& cache, const PagedLengths& lengths,
                                           const AttentionOptions& options);

}  // namespace tern::ops
