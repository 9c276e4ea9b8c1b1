// One query row of one head: what attention, its backward and attention_paged share.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

struct AttentionMask {
  std::int64_t first;  // keys [first, last) are visible
  std::int64_t last;
};

// Row `i` of a sequence with `len_q` query rows and `len_k` keys.
[[nodiscard]] AttentionMask visible_keys(std::int64_t i, std::int64_t len_q, std::int64_t len_k, bool causal,
                                         std::int64_t window);

struct AttentionRow {
  AttentionMask mask;
  std::vector<double> score;  // by key - mask.first: after scale and soft cap
  std::vector<double> slope;  // of the soft cap
  std::vector<double> error;  // roundings that the score is off by
  double lse = -std::numeric_limits<double>::infinity();
  double lse_error = 0.0;
  [[nodiscard]] bool empty() const { return mask.last <= mask.first; }
};

// `key(j)` is key j's first element. `sink` may be null.
[[nodiscard]] AttentionRow attention_row(const double* query, std::int64_t head_dim,
                                         const std::function<const double*(std::int64_t)>& key, AttentionMask mask,
                                         const tern_attention_attrs& attrs, const double* sink);

// Writes out[begin + d] = sum over keys of p value(j)[d], and lse[lse_at]. p may be stored in
// `narrow`.
void finish_attention_row(const AttentionRow& row, std::int64_t value_dim, tern_dtype narrow,
                          const std::function<const double*(std::int64_t)>& value, Output& out, std::int64_t begin,
                          Output& lse, std::int64_t lse_at);

}  // namespace tern::ops::ref
