#include "ops/ref/attention_row.h"

#include <algorithm>

namespace tern::ops::ref {
namespace {

// Scores, their errors and the log of the sum of their exponentials; row.key is filled.
void score_row(const AttentionInputs& in, AttentionRow& row) {
  const std::int64_t head_dim = in.q.size(2);
  const double* query = in.q.real.data() + row.at * head_dim;
  const double scale = in.attrs.scale;
  const double cap = in.attrs.softcap;
  const double* sink = in.sinks.present() ? &in.sinks.real[static_cast<std::size_t>(row.head)] : nullptr;
  double largest = sink != nullptr ? *sink : -std::numeric_limits<double>::infinity();
  for (const std::int64_t at : row.key) {
    const double* k = in.k.real.data() + at * head_dim;
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
  row.terms = std::max(head_dim, static_cast<std::int64_t>(row.key.size()) + (sink != nullptr ? 1 : 0));
}

// The keys that row `i` of a sequence with `len_q` query rows and `len_k` keys sees; it is row `at` of the mask.
std::vector<std::int64_t> visible_keys(const AttentionInputs& in, std::int64_t at, std::int64_t i, std::int64_t len_q,
                                       std::int64_t len_k) {
  const tern_attention_attrs& attrs = in.attrs;
  const std::int64_t p = i + len_k - len_q;
  std::vector<std::int64_t> keys;
  for (std::int64_t j = 0; j < len_k; ++j) {
    if (attrs.causal != 0 && j > p) continue;
    if (attrs.window > 0 && j <= p - attrs.window) continue;
    if (attrs.window_right > 0 && j >= p + attrs.window_right) continue;
    if (attrs.chunk > 0 && j / attrs.chunk != p / attrs.chunk) continue;
    if (in.mask.present() && in.mask.integer[static_cast<std::size_t>(at * in.mask.size(1) + j)] == 0) continue;
    keys.push_back(j);
  }
  return keys;
}

}  // namespace

AttentionInputs ragged_inputs(const tern_attention_attrs& attrs, const Tensor& q, const Tensor& k, const Tensor& sinks,
                              const Tensor& mask, const Tensor& cu_seqlens_q, const Tensor& cu_seqlens_k) {
  const auto begin = [&cu_seqlens_k](std::int64_t s) { return cu_seqlens_k.integer[static_cast<std::size_t>(s)]; };
  return {attrs,
          q,
          k,
          sinks,
          mask,
          cu_seqlens_q,
          [begin](std::int64_t s) { return begin(s + 1) - begin(s); },
          [begin](std::int64_t s, std::int64_t key) { return begin(s) + key; }};
}

void for_each_attention_row(const AttentionInputs& in, const std::function<void(const AttentionRow& row)>& visit) {
  const std::int64_t heads = in.q.size(1);
  const std::int64_t kv_heads = in.k.size(in.k.desc.rank - 2);
  for (std::int64_t s = 0; s + 1 < in.cu_seqlens_q.size(0); ++s) {
    const std::int64_t begin = in.cu_seqlens_q.integer[static_cast<std::size_t>(s)];
    const std::int64_t len_q = in.cu_seqlens_q.integer[static_cast<std::size_t>(s + 1)] - begin;
    const std::int64_t len_k = in.keys(s);
    for (std::int64_t i = 0; i < len_q; ++i) {
      const std::vector<std::int64_t> visible = visible_keys(in, begin + i, i, len_q, len_k);
      for (std::int64_t h = 0; !visible.empty() && h < heads; ++h) {
        AttentionRow row;
        row.at = (begin + i) * heads + h;
        row.head = h;
        row.position = visible;
        for (const std::int64_t j : visible) {
          row.key.push_back(in.token(s, j) * kv_heads + h / (heads / kv_heads));
        }
        score_row(in, row);
        visit(row);
      }
    }
  }
}

void attend(const AttentionInputs& in, const Tensor& v, Output& out, Output& lse) {
  const std::int64_t value_dim = v.size(v.desc.rank - 1);
  lse.fill(-std::numeric_limits<double>::infinity());
  for_each_attention_row(in, [&](const AttentionRow& row) {
    lse.add(row.at, row.lse, {.roundings = row.lse_error, .terms = row.terms});
    for (std::size_t j = 0; j < row.score.size(); ++j) {
      const double p = std::exp(row.score[j] - row.lse);
      const double roundings = p * (8.0 + row.error[j] + row.lse_error);
      const double narrowed = narrowing(in.q.desc.dtype, p);
      const double* value = v.real.data() + row.key[j] * value_dim;
      for (std::int64_t d = 0; d < value_dim; ++d) {
        out.add(row.at * value_dim + d, p * value[d],
                {.roundings = std::fabs(value[d]) * roundings,
                 .terms = row.terms,
                 .narrowed = std::fabs(value[d]) * narrowed});
      }
    }
  });
}

}  // namespace tern::ops::ref
