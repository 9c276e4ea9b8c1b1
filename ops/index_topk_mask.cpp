#include "ops/index_topk_mask_paged.h"

#include <algorithm>
#include <numeric>

#include "ops/attention_shared.h"
#include "ops/build.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

using Attrs = tern_index_topk_mask_attrs;  // both ops' are alike
static_assert(sizeof(Attrs) == sizeof(tern_index_topk_mask_paged_attrs));

std::string check_index(AttrBytes bytes, const TensorDesc& q, const TensorDesc& mask) {
  const auto attrs = unpack_attrs<Attrs>(bytes);
  return first_problem(
      require(attrs.topk >= 1, cat("topk: expected at least 1, found ", attrs.topk)),
      require(attrs.max_seqlen_q >= 0 && attrs.max_seqlen_k >= 0,
              "max_seqlen_q, max_seqlen_k: expected no negative number"),
      require(q.shape[1] >= 1, "q: expected at least one head"),
      require(mask.shape[1] >= attrs.max_seqlen_k,
              cat("mask: expected at least max_seqlen_k = ", attrs.max_seqlen_k, " keys, found ", mask.shape[1])));
}

std::string check(Args args, AttrBytes bytes) {
  return check_index(bytes, args[TERN_INDEX_TOPK_MASK_Q], args[TERN_INDEX_TOPK_MASK_MASK]);
}

std::string check_paged(Args args, AttrBytes bytes) {
  return first_problem(
      check_index(bytes, args[TERN_INDEX_TOPK_MASK_PAGED_Q], args[TERN_INDEX_TOPK_MASK_PAGED_MASK]),
      require(args[TERN_INDEX_TOPK_MASK_PAGED_K_CACHE].shape[1] >= 1, "k_cache: expected a block_size of at least 1"));
}

// Keys that rows see, all of whose scores are needed; lengths[1] as in attended_pairs.
double flops(const CallDesc& call, HostArrays lengths) {
  const auto attrs = unpack_attrs<Attrs>(call.attrs);
  const tern_attention_attrs causal{1.0F, 0.0F, 1, 0, attrs.max_seqlen_q, attrs.max_seqlen_k};
  const CallDesc as_attention{call.op, call.args, std::as_bytes(std::span(&causal, 1)), 0};
  const Keys keys = call.op == TERN_OP_INDEX_TOPK_MASK ? Keys::cumulative : Keys::paged;
  const TensorDesc& q = call[TERN_INDEX_TOPK_MASK_Q];
  return 2.0 * attended_pairs(as_attention, lengths, keys) * static_cast<double>(q.shape[1] * q.shape[2]);
}
static_assert(int{TERN_INDEX_TOPK_MASK_Q} == int{TERN_INDEX_TOPK_MASK_PAGED_Q});

// Of the cache, the keys of these sequences.
double paged_bytes(const CallDesc& call, int arg, HostArrays lengths) {
  if (arg != TERN_INDEX_TOPK_MASK_PAGED_K_CACHE || lengths.size() < 2) return each_argument_once(call, arg, lengths);
  const auto slots = static_cast<double>(std::max<std::int64_t>(call[arg].shape[0] * call[arg].shape[1], 1));
  return whole_bytes(call, arg) / slots * std::accumulate(lengths[1].data, lengths[1].data + lengths[1].count, 0.0);
}

Indices indices(const CallDesc& call) {
  const auto attrs = unpack_attrs<Attrs>(call.attrs);
  Indices out;
  out.sequences = {{TERN_INDEX_TOPK_MASK_CU_SEQLENS_Q, TERN_INDEX_TOPK_MASK_Q, attrs.max_seqlen_q},
                   {TERN_INDEX_TOPK_MASK_CU_SEQLENS_K, TERN_INDEX_TOPK_MASK_K, attrs.max_seqlen_k, true}};
  return out;
}

Indices paged_indices(const CallDesc& call) {
  const auto attrs = unpack_attrs<Attrs>(call.attrs);
  Indices out;
  out.sequences = {{TERN_INDEX_TOPK_MASK_PAGED_CU_SEQLENS_Q, TERN_INDEX_TOPK_MASK_PAGED_Q, attrs.max_seqlen_q}};
  out.paged = Indices::Paged{TERN_INDEX_TOPK_MASK_PAGED_KV_LENS, TERN_INDEX_TOPK_MASK_PAGED_BLOCK_TABLE,
                             TERN_INDEX_TOPK_MASK_PAGED_K_CACHE, attrs.max_seqlen_k};
  return out;
}

TensorDesc mask_desc(const TensorDesc& q, const IndexTopk& index) {
  return rows_like(make_desc(TERN_BOOL, {q.shape[0], index.max_seqlen_k}), q);
}

}  // namespace

Value index_topk_mask(Emitter& emitter, const IndexTopk& index, Value k, Value cu_seqlens, std::uint32_t needs) {
  return CallBuilder(TERN_OP_INDEX_TOPK_MASK, needs)
      .attrs(tern_index_topk_mask_attrs{index.topk, index.max_seqlen_q, index.max_seqlen_k})
      .in(TERN_INDEX_TOPK_MASK_Q, index.q)
      .in(TERN_INDEX_TOPK_MASK_WEIGHTS, index.weights)
      .in(TERN_INDEX_TOPK_MASK_K, k)
      .in(TERN_INDEX_TOPK_MASK_CU_SEQLENS_Q, cu_seqlens)
      .in(TERN_INDEX_TOPK_MASK_CU_SEQLENS_K, cu_seqlens)
      .out(TERN_INDEX_TOPK_MASK_MASK, mask_desc(emitter.desc(index.q), index))
      .emit(emitter, TERN_INDEX_TOPK_MASK_MASK);
}

Value index_topk_mask_paged(Emitter& emitter, const IndexTopk& index, Value k_cache, const PagedLengths& lengths,
                            std::uint32_t needs) {
  return CallBuilder(TERN_OP_INDEX_TOPK_MASK_PAGED, needs)
      .attrs(tern_index_topk_mask_paged_attrs{index.topk, index.max_seqlen_q, index.max_seqlen_k})
      .in(TERN_INDEX_TOPK_MASK_PAGED_Q, index.q)
      .in(TERN_INDEX_TOPK_MASK_PAGED_WEIGHTS, index.weights)
      .in(TERN_INDEX_TOPK_MASK_PAGED_K_CACHE, k_cache)
      .in(TERN_INDEX_TOPK_MASK_PAGED_BLOCK_TABLE, lengths.block_table)
      .in(TERN_INDEX_TOPK_MASK_PAGED_CU_SEQLENS_Q, lengths.cu_seqlens_q)
      .in(TERN_INDEX_TOPK_MASK_PAGED_KV_LENS, lengths.kv_lens)
      .out(TERN_INDEX_TOPK_MASK_PAGED_MASK, mask_desc(emitter.desc(index.q), index))
      .emit(emitter, TERN_INDEX_TOPK_MASK_PAGED_MASK);
}

const OpRules index_topk_mask_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::index_topk_mask,
    .work = {flops, each_argument_once},
    .uses = no_weights,
    .row_dim = query_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kEveryCommand,
};

const OpRules index_topk_mask_paged_rules = {
    .check = check_paged,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::index_topk_mask_paged,
    .work = {flops, paged_bytes},
    .uses = no_weights,
    .row_dim = query_rows,
    .split = no_split,
    .indices = paged_indices,
    .needed_by = kInfer | kServe,
};

}  // namespace tern::ops
