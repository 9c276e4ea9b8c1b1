#include "ops/ref/attention_row.h"

namespace tern::ops::ref {

void attention(Call& call) {
  const auto attrs = attrs_of<tern_attention_attrs>(call);
  const Tensor& q = input(call, TERN_ATTENTION_Q);
  const Tensor& k = input(call, TERN_ATTENTION_K);
  const Tensor& v = input(call, TERN_ATTENTION_V);
  const Tensor& cu_q = input(call, TERN_ATTENTION_CU_SEQLENS_Q);
  const Tensor& cu_k = input(call, TERN_ATTENTION_CU_SEQLENS_K);
  const Tensor& sinks = input(call, TERN_ATTENTION_SINKS);
  Output out(call, TERN_ATTENTION_OUT);
  Output lse(call, TERN_ATTENTION_LSE);
  const std::int64_t heads = q.size(1);
  const std::int64_t head_dim = q.size(2);
  const std::int64_t kv_heads = k.size(1);
  const std::int64_t value_dim = v.size(2);
  Tensor& lse_tensor = call.args[TERN_ATTENTION_LSE];
  if (lse_tensor.present()) {
    lse_tensor.real.assign(lse_tensor.real.size(), -std::numeric_limits<double>::infinity());
  }
  for (std::int64_t s = 0; s + 1 < cu_q.size(0); ++s) {
    const std::int64_t q0 = cu_q.integer[static_cast<std::size_t>(s)];
    const std::int64_t k0 = cu_k.integer[static_cast<std::size_t>(s)];
    const std::int64_t len_q = cu_q.integer[static_cast<std::size_t>(s + 1)] - q0;
    const std::int64_t len_k = cu_k.integer[static_cast<std::size_t>(s + 1)] - k0;
    for (std::int64_t i = 0; i < len_q; ++i) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t kv_head = h / (heads / kv_heads);
        const std::int64_t at = (q0 + i) * heads + h;
        const AttentionRow row = attention_row(
            q.real.data() + at * head_dim, head_dim,
            [&](std::int64_t j) { return k.real.data() + ((k0 + j) * kv_heads + kv_head) * head_dim; },
            visible_keys(i, len_q, len_k, attrs.causal != 0, attrs.window), attrs,
            sinks.present() ? &sinks.real[static_cast<std::size_t>(h)] : nullptr);
        if (row.empty()) continue;
        if (lse_tensor.present()) lse_tensor.real[static_cast<std::size_t>(at)] = 0.0;
        finish_attention_row(
            row, value_dim, q.desc.dtype,
            [&](std::int64_t j) { return v.real.data() + ((k0 + j) * kv_heads + kv_head) * value_dim; }, out,
            at * value_dim, lse, at);
      }
    }
  }
}

}  // namespace tern::ops::ref
