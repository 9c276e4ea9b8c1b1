#include "ops/ref/attention_row.h"

namespace tern::ops::ref {

void attention_paged(Call& call) {
  const auto paged = attrs_of<tern_attention_paged_attrs>(call);
  const tern_attention_attrs attrs = {paged.scale,  paged.softcap,      paged.causal,
                                      paged.window, paged.max_seqlen_q, paged.max_seqlen_k};
  const Tensor& q = input(call, TERN_ATTENTION_PAGED_Q);
  const Tensor& k = input(call, TERN_ATTENTION_PAGED_K_CACHE);
  const Tensor& v = input(call, TERN_ATTENTION_PAGED_V_CACHE);
  const Tensor& table = input(call, TERN_ATTENTION_PAGED_BLOCK_TABLE);
  const Tensor& cu_q = input(call, TERN_ATTENTION_PAGED_CU_SEQLENS_Q);
  const Tensor& lens = input(call, TERN_ATTENTION_PAGED_KV_LENS);
  const Tensor& sinks = input(call, TERN_ATTENTION_PAGED_SINKS);
  Output out(call, TERN_ATTENTION_PAGED_OUT);
  Output lse(call, TERN_ATTENTION_PAGED_LSE);
  const std::int64_t heads = q.size(1);
  const std::int64_t head_dim = q.size(2);
  const std::int64_t block_size = k.size(1);
  const std::int64_t kv_heads = k.size(2);
  const std::int64_t value_dim = v.size(3);
  Tensor& lse_tensor = call.args[TERN_ATTENTION_PAGED_LSE];
  if (lse_tensor.present()) {
    lse_tensor.real.assign(lse_tensor.real.size(), -std::numeric_limits<double>::infinity());
  }
  for (std::int64_t s = 0; s + 1 < cu_q.size(0); ++s) {
    const std::int64_t q0 = cu_q.integer[static_cast<std::size_t>(s)];
    const std::int64_t len_q = cu_q.integer[static_cast<std::size_t>(s + 1)] - q0;
    const std::int64_t len_k = lens.integer[static_cast<std::size_t>(s)];
    auto token = [&](std::int64_t j) {  // of key j in the cache
      const std::int64_t block = table.integer.at(static_cast<std::size_t>(s * table.size(1) + j / block_size));
      return block * block_size + j % block_size;
    };
    for (std::int64_t i = 0; i < len_q; ++i) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t kv_head = h / (heads / kv_heads);
        const std::int64_t at = (q0 + i) * heads + h;
        const AttentionRow row = attention_row(
            q.real.data() + at * head_dim, head_dim,
            [&](std::int64_t j) { return k.real.data() + (token(j) * kv_heads + kv_head) * head_dim; },
            visible_keys(i, len_q, len_k, attrs.causal != 0, attrs.window), attrs,
            sinks.present() ? &sinks.real[static_cast<std::size_t>(h)] : nullptr);
        if (row.empty()) continue;
        if (lse_tensor.present()) lse_tensor.real[static_cast<std::size_t>(at)] = 0.0;
        finish_attention_row(
            row, value_dim, q.desc.dtype,
            [&](std::int64_t j) { return v.real.data() + (token(j) * kv_heads + kv_head) * value_dim; }, out,
            at * value_dim, lse, at);
      }
    }
  }
}

}  // namespace tern::ops::ref
