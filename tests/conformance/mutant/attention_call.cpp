#include "mutant/attention_call.h"

#include <cmath>
#include <cstring>

namespace tern::mutant {
namespace {

AttentionPlaces places_of(std::uint32_t op) {
  switch (op) {
    case TERN_OP_ATTENTION:
      return {TERN_ATTENTION_Q,
              TERN_ATTENTION_K,
              TERN_ATTENTION_V,
              TERN_ATTENTION_CU_SEQLENS_Q,
              TERN_ATTENTION_CU_SEQLENS_K,
              -1,
              TERN_ATTENTION_SINKS,
              TERN_ATTENTION_MASK,
              TERN_ATTENTION_OUT,
              TERN_ATTENTION_LSE};
    case TERN_OP_ATTENTION_PAGED:
      return {TERN_ATTENTION_PAGED_Q,       TERN_ATTENTION_PAGED_K_CACHE,
              TERN_ATTENTION_PAGED_V_CACHE, TERN_ATTENTION_PAGED_CU_SEQLENS_Q,
              TERN_ATTENTION_PAGED_KV_LENS, TERN_ATTENTION_PAGED_BLOCK_TABLE,
              TERN_ATTENTION_PAGED_SINKS,   TERN_ATTENTION_PAGED_MASK,
              TERN_ATTENTION_PAGED_OUT,     TERN_ATTENTION_PAGED_LSE};
    default:
      return {TERN_ATTENTION_BACKWARD_Q,
              TERN_ATTENTION_BACKWARD_K,
              TERN_ATTENTION_BACKWARD_V,
              TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q,
              TERN_ATTENTION_BACKWARD_CU_SEQLENS_K,
              -1,
              TERN_ATTENTION_BACKWARD_SINKS,
              TERN_ATTENTION_BACKWARD_MASK,
              TERN_ATTENTION_BACKWARD_OUT,
              TERN_ATTENTION_BACKWARD_LSE};
  }
}

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

AttentionCall::AttentionCall(const tern_op_desc& desc, std::vector<ops::ref::Tensor>& args)
    : op_(desc.op), at_(places_of(desc.op)), args_(args) {
  std::memcpy(&attrs_, desc.attrs, sizeof(attrs_));
}

ops::ref::AttentionInputs AttentionCall::inputs() {
  if (op_ != TERN_OP_ATTENTION_PAGED) {
    return ops::ref::ragged_inputs(attrs_, arg(at_.q), arg(at_.k), arg(at_.sinks), arg(at_.mask), arg(at_.cu_q),
                                   arg(at_.lens));
  }
  return {attrs_,
          arg(at_.q),
          arg(at_.k),
          arg(at_.sinks),
          arg(at_.mask),
          arg(at_.cu_q),
          [this](std::int64_t s) { return arg(at_.lens).integer[static_cast<std::size_t>(s)]; },
          [this](std::int64_t s, std::int64_t key) {
            const std::int64_t block = arg(at_.k).size(1);
            const auto entry = static_cast<std::size_t>(s * arg(at_.table).size(1) + key / block);
            return arg(at_.table).integer.at(entry) * block + key % block;
          }};
}

void AttentionCall::add_gradient(const ops::ref::AttentionRow& row, std::size_t key, double times) {
  const std::int64_t head_dim = arg(at_.q).size(2);
  const std::int64_t value_dim = arg(at_.v).size(2);
  const double* upstream = arg(TERN_ATTENTION_BACKWARD_DOUT).real.data() + row.at * value_dim;
  const double p = std::exp(row.score[key] - arg(at_.lse).real[static_cast<std::size_t>(row.at)]);
  const double delta = dot(upstream, arg(at_.out).real.data() + row.at * value_dim, value_dim);
  const double dp = dot(upstream, arg(at_.v).real.data() + row.key[key] * value_dim, value_dim);
  const double ds = p * (dp - delta) * row.slope[key] * attrs_.scale;
  for (std::int64_t d = 0; d < value_dim; ++d) {
    arg(TERN_ATTENTION_BACKWARD_DV).real[static_cast<std::size_t>(row.key[key] * value_dim + d)] +=
        times * p * upstream[d];
  }
  for (std::int64_t d = 0; d < head_dim; ++d) {
    const auto query = static_cast<std::size_t>(row.at * head_dim + d);
    const auto of_key = static_cast<std::size_t>(row.key[key] * head_dim + d);
    arg(TERN_ATTENTION_BACKWARD_DQ).real[query] += times * ds * arg(at_.k).real[of_key];
    arg(TERN_ATTENTION_BACKWARD_DK).real[of_key] += times * ds * arg(at_.q).real[query];
  }
}

}  // namespace tern::mutant
