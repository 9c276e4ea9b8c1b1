#include "ops/attention_paged.h"

#include "ops/attention_check.h"
#include "ops/build.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes bytes) {
  const TensorDesc& cache = args[TERN_ATTENTION_PAGED_K_CACHE];
  return first_problem(
      check_attention(unpack_attrs<tern_attention_attrs>(bytes), args[TERN_ATTENTION_PAGED_Q].shape[1], cache.shape[2]),
      require(cache.shape[1] >= 1, "k_cache: expected a block_size of at least 1"));
}

}  // namespace

AttentionOut attention_paged(Emitter& emitter, Value q, const KvCache& cache, const PagedLengths& lengths,
                             const AttentionOptions& options) {
  const TensorDesc query = emitter.desc(q);
  CallBuilder builder(TERN_OP_ATTENTION_PAGED, options.needs);
  builder
      .attrs(tern_attention_paged_attrs{options.scale, options.softcap, options.causal ? 1 : 0, options.window,
                                        options.max_seqlen_q, options.max_seqlen_k})
      .in(TERN_ATTENTION_PAGED_Q, q)
      .in(TERN_ATTENTION_PAGED_K_CACHE, cache.k)
      .in(TERN_ATTENTION_PAGED_V_CACHE, cache.v)
      .in(TERN_ATTENTION_PAGED_BLOCK_TABLE, lengths.block_table)
      .in(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, lengths.cu_seqlens_q)
      .in(TERN_ATTENTION_PAGED_KV_LENS, lengths.kv_lens)
      .in(TERN_ATTENTION_PAGED_SINKS, options.sinks)
      .out(TERN_ATTENTION_PAGED_OUT,
           rows_like(make_desc(options.out, {query.shape[0], query.shape[1], emitter.desc(cache.v).shape[3]}), query));
  if (options.keep_lse) {
    builder.out(TERN_ATTENTION_PAGED_LSE, rows_like(make_desc(TERN_F32, {query.shape[0], query.shape[1]}), query));
  }
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_ATTENTION_PAGED_OUT], out[TERN_ATTENTION_PAGED_LSE]};
}

const OpRules attention_paged_rules = {check, nullptr, nullptr, ref::attention_paged};

}  // namespace tern::ops
