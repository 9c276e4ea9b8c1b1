// attention: for each row of a query head: s_j = softcap(scale q k_j); p = softmax of s over the visible keys, with the
// head's sink as one more logit that has no value; out = sum p_j v_j; lse = log sum exp s, sink included.
// Vaswani et al., 2017; online softmax: Dao et al., "FlashAttention", 2022.
//
// Shapes: q [q_rows, heads, head_dim], k [k_rows, kv_heads, head_dim], v [k_rows, kv_heads, value_dim], cu_seqlens_q
//   and cu_seqlens_k [sequences + 1] i32 (also in host_args), rising, first 0; sinks [heads] f32; mask [q_rows,
//   mask_keys] bool, mask_keys >= max_seqlen_k; out [q_rows, heads, value_dim]; lse [q_rows, heads] f32. heads is a
//   multiple of kv_heads; head h reads kv head h / (heads / kv_heads).
// Visible: row i of a sequence is that of its key p = i + len_k - len_q, and sees keys j for which all of these hold:
//   causal: j <= p. window (0: none): j > p - window, so p itself and window - 1 before it. window_right (0: none;
//   where causal it is 0): j < p + window_right, so p itself and window_right - 1 after it. chunk (0: none): j / chunk
//   = p / chunk in whole numbers. mask: mask[q row, j] is 1, j counted in its own sequence.
//   Without any of them a row sees all keys. FlashAttention's window_size (left, right) is (window - 1, window_right -
//   1), its attention_chunk is chunk; a layer that sees n tokens to both sides has n + 1 in both windows. A tree, or a
//   span that sees itself both ways, is causal = 0 with the whole rule in the mask.
//   Rows that see no key and rows outside of every sequence: out = 0, lse = -inf.
// Where causal, or with a window, window_right or chunk, the host promises len_k >= len_q of each sequence: p >= 0.
// Work: keys that no row of a tile may see beside the mask are not computed; flops count the others.
// Dtypes: float; scores, softmax and sums in fp32; p may be rounded to q's dtype before the product with v.
// Dynamic: q_rows and k_rows; nothing beyond the last sequence is read.
// Aliasing: none. Determinism: a fixed order where asked. Row invariant where asked: a row's bits depend on its own
//   sequence alone.
// Decoding is told from prefill by max_seqlen_q alone: 1 says that no sequence has more rows, whatever the shapes.
// Backward: attention_backward from out and lse.
// Decomposition: with sinks: attention without them into fp32, then sink_scale.
// Tolerance: u(out) |out| + u32 growth(max(head_dim, keys that the row sees)) sum p |v| (8 + error of s + error of lse)
//   + u(q's dtype) sum p |v|, where the error of s_j is |scale| sum |q k_j| + |s_j|.
//
// attention_backward: with delta = sum dout out, p = exp(s - lse) of visible keys, ds = p (dout v - delta) softcap':
//   dq = scale sum ds k; dk = scale sum ds q; dv = sum p dout; dsinks = - sum exp(sink - lse) delta.
//
// Shapes: as above; dq, dk, dv as q, k, v; dsinks [heads] f32, may accumulate. lse is needed. A mask has no gradient.
// Rows outside of every sequence get 0. p and ds may be rounded to q's dtype before their products.
// Aliasing: none. Determinism: a fixed order where asked. Backward: none.
// Decomposition: accumulating: into fp32, then axpby; with sinks: without them, then sink_scale_backward.
// Tolerance: propagated in ops/ref/attention_backward.cpp.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct AttentionOptions {
  float scale = 1.0F;
  float softcap = 0.0F;
  bool causal = true;
  std::int32_t window = 0;        // 0: none
  std::int32_t window_right = 0;  // 0: none; not where causal
  std::int32_t chunk = 0;         // 0: none
  std::int32_t max_seqlen_q = 0;  // no sequence has more query rows
  std::int32_t max_seqlen_k = 0;
  Value sinks;           // may be absent
  Value mask;            // [q_rows, mask_keys] bool; may be absent
  bool keep_lse = true;  // a backward needs it
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
struct AttentionOut {
  Value out;
  Value lse;  // absent unless kept
};
[[nodiscard]] AttentionOut attention(Emitter& emitter, Value q, Value k, Value v, Value cu_seqlens_q,
                                     Value cu_seqlens_k, const AttentionOptions& options);

}  // namespace tern::ops
