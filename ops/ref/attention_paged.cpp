#include "ops/ref/attention_row.h"
#include "ops/ref/cache_codes.h"

namespace tern::ops::ref {

void attention_paged(Call& call) {
  const Tensor k = expanded(input(call, TERN_ATTENTION_PAGED_K_CACHE), input(call, TERN_ATTENTION_PAGED_K_SCALE));
  const Tensor v = expanded(input(call, TERN_ATTENTION_PAGED_V_CACHE), input(call, TERN_ATTENTION_PAGED_V_SCALE));
  const Tensor& table = input(call, TERN_ATTENTION_PAGED_BLOCK_TABLE);
  const Tensor& lens = input(call, TERN_ATTENTION_PAGED_KV_LENS);
  const std::int64_t block_size = k.size(1);
  const AttentionInputs in = {attention_attrs<tern_attention_paged_attrs>(call),
                              input(call, TERN_ATTENTION_PAGED_Q),
                              k,
                              input(call, TERN_ATTENTION_PAGED_SINKS),
                              input(call, TERN_ATTENTION_PAGED_MASK),
                              input(call, TERN_ATTENTION_PAGED_CU_SEQLENS_Q),
                              [&](std::int64_t s) { return lens.integer[static_cast<std::size_t>(s)]; },
                              [&](std::int64_t s, std::int64_t key) {
                                const auto at = static_cast<std::size_t>(s * table.size(1) + key / block_size);
                                return table.integer.at(at) * block_size + key % block_size;
                              }};
  Output out(call, TERN_ATTENTION_PAGED_OUT);
  Output lse(call, TERN_ATTENTION_PAGED_LSE);
  attend(in, v, out, lse);
}

}  // namespace tern::ops::ref
