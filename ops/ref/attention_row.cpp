#include "ops/ref/attention_row.h"

#include <algorithm>

namespace tern::ops::ref {

AttentionMask visible_keys(std::int64_t i, std::int64_t len_q, std::int64_t len_k, bool causal, std::int64_t window) {
  const std::int64_t last = causal ? std::min(len_k, i + len_k - len_q + 1) : len_k;
  const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, last - window) : 0;
  return {first, std::max(first, last)};
}

AttentionRow attention_row(const double* query, std::int64_t head_dim,
                           const std::function<const double*(std::int64_t)>& key, AttentionMask mask,
                           const tern_attention_attrs& attrs, const double* sink) {
  AttentionRow row;
  row.mask = mask;
  if (row.empty()) return row;
  const double scale = attrs.scale;
  const double cap = attrs.softcap;
  double largest = sink != nullptr ? *sink : -std::numeric_limits<double>::infinity();
  for (std::int64_t j = mask.first; j < mask.last; ++j) {
    const double* k = key(j);
    double dot = 0.0;
    double magnitude = 0.0;
    for (std::int64_t d = 0; d < head_dim; ++d) {
      dot += query[d] * k[d];
      magnitude += std::fabs(query[d] * k[d]);
    }
    double score = dot * scale;
    double slope = 1.0;
    double error = magnitude * std::fabs(scale);
    if (cap > 0.0) {
      const double t = std::tanh(score / cap);
      slope = 1.0 - t * t;
      error = (slope > 0.0 ? error * slope : 0.0) + 8.0 * std::fabs(cap * t);
      score = cap * t;
    }
    row.score.push_back(score);
    row.slope.push_back(slope);
    row.error.push_back(error + std::fabs(score));
    largest = std::max(largest, score);
  }
  double total = sink != nullptr ? std::exp(*sink - largest) : 0.0;
  double total_error = total * std::fabs(sink != nullptr ? *sink : 0.0);
  for (std::size_t j = 0; j < row.score.size(); ++j) {
    const double term = std::exp(row.score[j] - largest);
    total += term;
    total_error += term * row.error[j];
  }
  row.lse = largest + std::log(total);
  row.lse_error = total_error / total + 4.0 + std::fabs(row.lse);
  return row;
}

void finish_attention_row(const AttentionRow& row, std::int64_t value_dim, tern_dtype narrow,
                          const std::function<const double*(std::int64_t)>& value, Output& out, std::int64_t begin,
                          Output& lse, std::int64_t lse_at) {
  lse.add(lse_at, row.lse, row.lse_error);
  for (std::size_t j = 0; j < row.score.size(); ++j) {
    const double p = std::exp(row.score[j] - row.lse);
    // before it is divided by the sum, p is larger: its rounding then weighs no more than twice
    const double error = p * (8.0 + row.error[j] + row.lse_error) + 2.0 * narrowing(narrow, p);
    const double* v = value(row.mask.first + static_cast<std::int64_t>(j));
    for (std::int64_t d = 0; d < value_dim; ++d) out.add(begin + d, p * v[d], std::fabs(v[d]) * error);
  }
}

}  // namespace tern::ops::ref
