#include "ops/ref/attention_row.h"

namespace tern::ops::ref {
namespace {

struct Dot {
  double sum = 0.0;
  double magnitude = 0.0;
};

Dot dot(const double* a, const double* b, std::int64_t n) {
  Dot out;
  for (std::int64_t d = 0; d < n; ++d) {
    out.sum += a[d] * b[d];
    out.magnitude += std::fabs(a[d] * b[d]);
  }
  return out;
}

}  // namespace

void attention_backward(Call& call) {
  const Tensor& dout = input(call, TERN_ATTENTION_BACKWARD_DOUT);
  const Tensor& q = input(call, TERN_ATTENTION_BACKWARD_Q);
  const Tensor& k = input(call, TERN_ATTENTION_BACKWARD_K);
  const Tensor& v = input(call, TERN_ATTENTION_BACKWARD_V);
  const Tensor& out = input(call, TERN_ATTENTION_BACKWARD_OUT);
  const Tensor& lse = input(call, TERN_ATTENTION_BACKWARD_LSE);
  const Tensor& sinks = input(call, TERN_ATTENTION_BACKWARD_SINKS);
  const AttentionInputs in = ragged_inputs(
      attention_attrs<tern_attention_backward_attrs>(call), q, k, sinks, input(call, TERN_ATTENTION_BACKWARD_MASK),
      input(call, TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q), input(call, TERN_ATTENTION_BACKWARD_CU_SEQLENS_K));
  Output dq(call, TERN_ATTENTION_BACKWARD_DQ);
  Output dk(call, TERN_ATTENTION_BACKWARD_DK);
  Output dv(call, TERN_ATTENTION_BACKWARD_DV);
  Output dsinks(call, TERN_ATTENTION_BACKWARD_DSINKS);
  const std::int64_t head_dim = q.size(2);
  const std::int64_t value_dim = v.size(2);
  const tern_dtype narrow = q.desc.dtype;
  const double scale = in.attrs.scale;
  for_each_attention_row(in, [&](const AttentionRow& row) {
    const double row_lse = lse.real[static_cast<std::size_t>(row.at)];
    const double* upstream = dout.real.data() + row.at * value_dim;
    const Dot delta = dot(upstream, out.real.data() + row.at * value_dim, value_dim);
    const std::int64_t terms = std::max(row.terms, value_dim);
    for (std::size_t j = 0; j < row.score.size(); ++j) {
      const std::int64_t key = row.key[j] * head_dim;
      const std::int64_t value = row.key[j] * value_dim;
      const double p = std::exp(row.score[j] - row_lse);
      const double p_error = p * (8.0 + row.error[j] + std::fabs(row_lse));
      const Dot dp = dot(upstream, v.real.data() + value, value_dim);
      const double unscaled = p * (dp.sum - delta.sum) * row.slope[j];
      const double ds = unscaled * scale;
      const double ds_error = std::fabs(scale) * (p_error * std::fabs((dp.sum - delta.sum) * row.slope[j]) +
                                                  4.0 * p * (dp.magnitude + delta.magnitude));
      const double ds_narrowed = std::fabs(scale) * narrowing(narrow, unscaled);
      for (std::int64_t d = 0; d < value_dim; ++d) {
        const double factor = std::fabs(upstream[d]);
        dv.add(value + d, p * upstream[d],
               {.roundings = factor * p_error, .terms = terms, .narrowed = factor * narrowing(narrow, p)});
      }
      for (std::int64_t d = 0; d < head_dim; ++d) {
        const double by_key = k.real[static_cast<std::size_t>(key + d)];
        const double by_query = q.real[static_cast<std::size_t>(row.at * head_dim + d)];
        const auto error = [&](double factor) {
          return Error{std::fabs(factor) * ds_error, terms, std::fabs(factor) * ds_narrowed};
        };
        dq.add(row.at * head_dim + d, ds * by_key, error(by_key));
        dk.add(key + d, ds * by_query, error(by_query));
      }
    }
    if (sinks.present()) {
      const double sink = sinks.real[static_cast<std::size_t>(row.head)];
      const double p = std::exp(sink - row_lse);
      dsinks.add(row.head, -p * delta.sum,
                 {.roundings = p * delta.magnitude * (8.0 + std::fabs(sink) + std::fabs(row_lse)), .terms = terms});
    }
  });
}

}  // namespace tern::ops::ref
