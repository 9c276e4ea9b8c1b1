#include "ops/ref/attention_row.h"

namespace tern::ops::ref {
namespace {

double dot(const double* a, const double* b, std::int64_t n, double& magnitude) {
  double sum = 0.0;
  magnitude = 0.0;
  for (std::int64_t d = 0; d < n; ++d) {
    sum += a[d] * b[d];
    magnitude += std::fabs(a[d] * b[d]);
  }
  return sum;
}

// One query row of one head; offsets are in elements of each tensor.
struct Backward {
  const tern_attention_attrs& attrs;
  std::int64_t head_dim;
  std::int64_t value_dim;
  tern_dtype narrow;
  Output& dq;
  Output& dk;
  Output& dv;

  // `delta` = sum over d of dout out; k_at(j), v_at(j): where key j's head begins.
  template <typename KeyAt, typename ValueAt>
  void row(const AttentionRow& scores, const Tensor& q, std::int64_t q_at, const Tensor& k, const KeyAt& k_at,
           const Tensor& v, const ValueAt& v_at, const double* dout, double lse, double delta,
           double delta_magnitude) const {
    const double scale = attrs.scale;
    for (std::size_t n = 0; n < scores.score.size(); ++n) {
      const std::int64_t j = scores.mask.first + static_cast<std::int64_t>(n);
      const double p = std::exp(scores.score[n] - lse);
      const double p_error = p * (8.0 + scores.error[n] + std::fabs(lse));
      double dp_magnitude = 0.0;
      const double dp = dot(dout, v.real.data() + v_at(j), value_dim, dp_magnitude);
      const double unscaled = p * (dp - delta) * scores.slope[n];
      const double ds = unscaled * scale;
      const double ds_error =
          std::fabs(scale) * (p_error * std::fabs((dp - delta) * scores.slope[n]) +
                              4.0 * p * (dp_magnitude + delta_magnitude) + 2.0 * narrowing(narrow, unscaled));
      for (std::int64_t d = 0; d < value_dim; ++d) {
        dv.add(v_at(j) + d, p * dout[d], std::fabs(dout[d]) * (p_error + 2.0 * narrowing(narrow, p)));
      }
      for (std::int64_t d = 0; d < head_dim; ++d) {
        const double key = k.real[static_cast<std::size_t>(k_at(j) + d)];
        const double query = q.real[static_cast<std::size_t>(q_at + d)];
        dq.add(q_at + d, ds * key, ds_error * std::fabs(key));
        dk.add(k_at(j) + d, ds * query, ds_error * std::fabs(query));
      }
    }
  }
};

}  // namespace

void attention_backward(Call& call) {
  const auto own = attrs_of<tern_attention_backward_attrs>(call);
  const tern_attention_attrs attrs = {own.scale,  own.softcap,      own.causal,
                                      own.window, own.max_seqlen_q, own.max_seqlen_k};
  const Tensor& dout = input(call, TERN_ATTENTION_BACKWARD_DOUT);
  const Tensor& q = input(call, TERN_ATTENTION_BACKWARD_Q);
  const Tensor& k = input(call, TERN_ATTENTION_BACKWARD_K);
  const Tensor& v = input(call, TERN_ATTENTION_BACKWARD_V);
  const Tensor& out = input(call, TERN_ATTENTION_BACKWARD_OUT);
  const Tensor& lse = input(call, TERN_ATTENTION_BACKWARD_LSE);
  const Tensor& cu_q = input(call, TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q);
  const Tensor& cu_k = input(call, TERN_ATTENTION_BACKWARD_CU_SEQLENS_K);
  const Tensor& sinks = input(call, TERN_ATTENTION_BACKWARD_SINKS);
  Output dq(call, TERN_ATTENTION_BACKWARD_DQ);
  Output dk(call, TERN_ATTENTION_BACKWARD_DK);
  Output dv(call, TERN_ATTENTION_BACKWARD_DV);
  Output dsinks(call, TERN_ATTENTION_BACKWARD_DSINKS);
  const std::int64_t heads = q.size(1);
  const std::int64_t kv_heads = k.size(1);
  const Backward backward = {attrs, q.size(2), v.size(2), q.desc.dtype, dq, dk, dv};
  for (std::int64_t s = 0; s + 1 < cu_q.size(0); ++s) {
    const std::int64_t q0 = cu_q.integer[static_cast<std::size_t>(s)];
    const std::int64_t k0 = cu_k.integer[static_cast<std::size_t>(s)];
    const std::int64_t len_q = cu_q.integer[static_cast<std::size_t>(s + 1)] - q0;
    const std::int64_t len_k = cu_k.integer[static_cast<std::size_t>(s + 1)] - k0;
    for (std::int64_t i = 0; i < len_q; ++i) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t kv_head = h / (heads / kv_heads);
        const std::int64_t at = (q0 + i) * heads + h;
        auto k_at = [&](std::int64_t j) { return ((k0 + j) * kv_heads + kv_head) * backward.head_dim; };
        auto v_at = [&](std::int64_t j) { return ((k0 + j) * kv_heads + kv_head) * backward.value_dim; };
        const double* sink = sinks.present() ? &sinks.real[static_cast<std::size_t>(h)] : nullptr;
        const AttentionRow scores = attention_row(
            q.real.data() + at * backward.head_dim, backward.head_dim,
            [&](std::int64_t j) { return k.real.data() + k_at(j); },
            visible_keys(i, len_q, len_k, attrs.causal != 0, attrs.window), attrs, sink);
        if (scores.empty()) continue;
        const double row_lse = lse.real[static_cast<std::size_t>(at)];
        const double* row_dout = dout.real.data() + at * backward.value_dim;
        double delta_magnitude = 0.0;
        const double delta =
            dot(row_dout, out.real.data() + at * backward.value_dim, backward.value_dim, delta_magnitude);
        backward.row(scores, q, at * backward.head_dim, k, k_at, v, v_at, row_dout, row_lse, delta, delta_magnitude);
        if (sink != nullptr) {
          const double p = std::exp(*sink - row_lse);
          dsinks.add(h, -p * delta, p * delta_magnitude * (8.0 + std::fabs(*sink) + std::fabs(row_lse)));
        }
      }
    }
  }
}

}  // namespace tern::ops::ref
