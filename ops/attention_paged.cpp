#include "ops/attention_paged.h"

#include <algorithm>
#include <numeric>

#include "ops/attention_shared.h"
#include "ops/build.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check_scales(Args args) {
  const bool k = has_scales(args[TERN_ATTENTION_PAGED_K_CACHE].dtype);
  const bool v = has_scales(args[TERN_ATTENTION_PAGED_V_CACHE].dtype);
  const auto is_there = [&](int arg) { return is_present(args[static_cast<std::size_t>(arg)]); };
  return first_problem(
      require(k == v, "v_cache: expected 8 bits if k_cache has them, and floats otherwise"),
      require(is_there(TERN_ATTENTION_PAGED_K_SCALE) == k && is_there(TERN_ATTENTION_PAGED_V_SCALE) == v,
              "k_scale, v_scale: expected some if the caches are of 8 bits, and none otherwise"));
}

std::string check(Args args, AttrBytes bytes) {
  const TensorDesc& cache = args[TERN_ATTENTION_PAGED_K_CACHE];
  return first_problem(check_scales(args),
                       check_attention(unpack_attrs<tern_attention_attrs>(bytes), args[TERN_ATTENTION_PAGED_Q].shape[1],
                                       cache.shape[2], args[TERN_ATTENTION_PAGED_MASK]),
                       require(cache.shape[1] >= 1, "k_cache: expected a block_size of at least 1"));
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  return decompose_sinks(emitter, call,
                         {TERN_ATTENTION_PAGED_SINKS, TERN_ATTENTION_PAGED_OUT, TERN_ATTENTION_PAGED_LSE});
}

double cached_keys(HostArrays lengths) {
  if (lengths.size() < 2) return 0;
  return std::accumulate(lengths[1].data, lengths[1].data + lengths[1].count, 0.0);
}

double flops(const CallDesc& call, HostArrays lengths) {
  const TensorDesc& q = call[TERN_ATTENTION_PAGED_Q];
  const std::int64_t widths = q.shape[2] + call[TERN_ATTENTION_PAGED_V_CACHE].shape[3];  // q k^T and p v
  return 2.0 * attended_pairs(call, lengths, Keys::paged) * static_cast<double>(q.shape[1] * widths);
}

// Of the caches, the keys and values of these sequences.
double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  if (arg != TERN_ATTENTION_PAGED_K_CACHE && arg != TERN_ATTENTION_PAGED_V_CACHE &&
      arg != TERN_ATTENTION_PAGED_K_SCALE && arg != TERN_ATTENTION_PAGED_V_SCALE) {
    return each_argument_once(call, arg, lengths);
  }
  if (!is_present(call[arg])) return 0;
  const auto slots = static_cast<double>(std::max<std::int64_t>(call[arg].shape[0] * call[arg].shape[1], 1));
  return whole_bytes(call, arg) / slots * cached_keys(lengths);
}

Indices indices(const CallDesc& call) {
  const auto attrs = unpack_attrs<tern_attention_paged_attrs>(call.attrs);
  Indices out;
  out.sequences = {{TERN_ATTENTION_PAGED_CU_SEQLENS_Q, TERN_ATTENTION_PAGED_Q, attrs.max_seqlen_q}};
  out.paged = Indices::Paged{TERN_ATTENTION_PAGED_KV_LENS, TERN_ATTENTION_PAGED_BLOCK_TABLE,
                             TERN_ATTENTION_PAGED_K_CACHE, attrs.max_seqlen_k};
  return out;
}

}  // namespace

AttentionOut attention_paged(Emitter& emitter, Value q, const KvCache& cache, const PagedLengths& lengths,
                             const AttentionOptions& options) {
  const TensorDesc query = emitter.desc(q);
  CallBuilder builder(TERN_OP_ATTENTION_PAGED, options.needs);
  builder
      .attrs(tern_attention_paged_attrs{options.scale, options.softcap, options.causal ? 1 : 0, options.window,
                                        options.max_seqlen_q, options.max_seqlen_k, options.window_right,
                                        options.chunk})
      .in(TERN_ATTENTION_PAGED_Q, q)
      .in(TERN_ATTENTION_PAGED_K_CACHE, cache.k)
      .in(TERN_ATTENTION_PAGED_V_CACHE, cache.v)
      .in(TERN_ATTENTION_PAGED_BLOCK_TABLE, lengths.block_table)
      .in(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, lengths.cu_seqlens_q)
      .in(TERN_ATTENTION_PAGED_KV_LENS, lengths.kv_lens)
      .in(TERN_ATTENTION_PAGED_SINKS, options.sinks)
      .in(TERN_ATTENTION_PAGED_MASK, options.mask)
      .in(TERN_ATTENTION_PAGED_K_SCALE, cache.k_scale)
      .in(TERN_ATTENTION_PAGED_V_SCALE, cache.v_scale)
      .out(TERN_ATTENTION_PAGED_OUT,
           rows_like(make_desc(options.out, {query.shape[0], query.shape[1], emitter.desc(cache.v).shape[3]}), query));
  if (options.keep_lse) {
    builder.out(TERN_ATTENTION_PAGED_LSE, rows_like(make_desc(TERN_F32, {query.shape[0], query.shape[1]}), query));
  }
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_ATTENTION_PAGED_OUT], out[TERN_ATTENTION_PAGED_LSE]};
}

const OpRules attention_paged_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = decompose,
    .reference = ref::attention_paged,
    .work = {flops, bytes},
    .uses = no_weights,
    .row_dim = query_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kInfer | kServe,
};

}  // namespace tern::ops
