#include "nn/indexer.h"

#include "nn/cache_spec.h"
#include "nn/heads.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "ops/build.h"
#include "ops/index_topk_mask_paged.h"
#include "ops/kv_write.h"

namespace tern::nn {
namespace {

// [tokens, heads * head_dim] seen as [tokens, heads, head_dim], its first features turned.
Value turned_heads(Context& context, Value x, const IndexerConfig& config, std::int64_t heads, Value positions) {
  return rope(context, heads_of(context, x, 0, heads, config.head_dim), positions, kDefaultRope);
}

}  // namespace

Value chosen_keys(Context& context, const std::string& module, const IndexerConfig& config, const TokenInputs& inputs,
                  const IndexerInputs& of) {
  graph::Graph& graph = context.graph();
  const std::uint32_t needs = context.options().needs;
  ops::IndexTopk index;
  index.q = turned_heads(context, linear(context, module + ".wq_b", of.low), config, config.heads, inputs.positions);
  index.weights = linear(context, module + ".weights_proj", of.x);
  index.topk = static_cast<std::int32_t>(config.topk);
  index.max_seqlen_q = static_cast<std::int32_t>(inputs.max_seqlen);
  index.max_seqlen_k = static_cast<std::int32_t>(inputs.paged() ? inputs.max_kv_len : inputs.max_seqlen);
  const Value own = linear(context, module + ".wk", of.x);
  const Value k = turned_heads(context, branch_layer_norm(context, module + ".k_norm", config.eps, own), config, 1,
                               inputs.positions);
  if (!inputs.paged()) return ops::index_topk_mask(graph, index, ops::as_matrix(graph, k), inputs.cu_seqlens, needs);
  const TensorDesc cache = cache_desc(inputs.cache_dtype, inputs.num_blocks, inputs.block_size, 1, config.head_dim);
  const ops::KvCache before{context.state(key_cache_name(inputs.cache_scope, module), cache), {}};
  const ops::KvCache written = ops::kv_write(graph, k, {}, inputs.slots, before, needs);
  return ops::index_topk_mask_paged(graph, index, written.k, {inputs.block_table, inputs.cu_seqlens, inputs.kv_lens},
                                    needs);
}

}  // namespace tern::nn
