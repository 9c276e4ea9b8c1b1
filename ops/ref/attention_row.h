// The rows of attention, its backward and attention_paged: one loop over sequences, query rows and heads.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

// One query row of one head that sees a key at least.
struct AttentionRow {
  std::int64_t at;    // row * heads + head: where its lse stands
  std::int64_t head;  // of the query
  // By visible key:
  std::vector<std::int64_t> position;  // in its sequence, rising
  std::vector<std::int64_t> key;       // token * kv_heads + kv_head: which row of k and v
  std::vector<double> score;           // after scale and soft cap
  std::vector<double> slope;           // of the soft cap
  std::vector<double> error;           // roundings that the score is off by
  double lse = -std::numeric_limits<double>::infinity();
  double lse_error = 0.0;  // roundings
  std::int64_t terms = 0;  // of the longest sum behind the row: its own keys, or a head's features
};

struct AttentionInputs {
  tern_attention_attrs attrs;
  const Tensor& q;                                          // [rows, heads, head_dim]
  const Tensor& k;                                          // [..., kv_heads, head_dim]; leading dimensions are tokens
  const Tensor& sinks;                                      // may be absent
  const Tensor& mask;                                       // [rows, at least as many as keys]; may be absent
  const Tensor& cu_seqlens_q;                               // [sequences + 1]
  std::function<std::int64_t(std::int64_t sequence)> keys;  // how many
  std::function<std::int64_t(std::int64_t sequence, std::int64_t key)> token;  // of k and v
};

// The attributes of one of the three ops: they are alike.
template <typename Attrs>
[[nodiscard]] tern_attention_attrs attention_attrs(const Call& call) {
  const auto own = attrs_of<Attrs>(call);
  return {own.scale,        own.softcap,      own.causal,       own.window,
          own.max_seqlen_q, own.max_seqlen_k, own.window_right, own.chunk};
}

// The inputs of attention and its backward, whose keys lie end to end.
[[nodiscard]] AttentionInputs ragged_inputs(const tern_attention_attrs& attrs, const Tensor& q, const Tensor& k,
                                            const Tensor& sinks, const Tensor& mask, const Tensor& cu_seqlens_q,
                                            const Tensor& cu_seqlens_k);

void for_each_attention_row(const AttentionInputs& in, const std::function<void(const AttentionRow& row)>& visit);

// The forward: `out` = sum over keys of p v, and `lse`; rows that see no key: 0 and -infinity. p may be stored in q's
// dtype.
void attend(const AttentionInputs& in, const Tensor& v, Output& out, Output& lse);

}  // namespace tern::ops::ref
