#include "nn/vision.h"

#include <cmath>

#include "base/strings.h"
#include "nn/heads.h"
#include "nn/linear.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "ops/attention.h"
#include "ops/build.h"
#include "ops/mul.h"
#include "ops/rope.h"

namespace tern::nn {
namespace {

struct Heads {
  Value q, k, v;
};

Heads projections(Context& context, const std::string& module, const VisionAttentionConfig& config, Value x) {
  const std::int64_t width = config.heads * config.head_dim;
  const auto heads = [&](Value from, std::int64_t first) {
    return heads_of(context, from, first, config.heads, config.head_dim);
  };
  if (!config.fused.empty()) {
    const Value all = linear(context, cat(module, ".", config.fused), x);
    return {heads(all, 0), heads(all, width), heads(all, 2 * width)};
  }
  const auto project = [&](const char* part) {
    Value projected = linear(context, cat(module, ".", part, "_proj"), x);
    if (config.qk_norm && *part != 'v')
      projected = branch_norm(context, cat(module, ".", part, "_norm"), config.eps, projected);
    return heads(projected, 0);
  };
  return {project("q"), project("k"), project("v")};
}

Value turned(Context& context, const VisionSequences& sequences, Value x) {
  if (!sequences.rows.present()) return x;
  ops::RopeOptions options;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return ops::rope(context.graph(), x, sequences.rows, sequences.cos, sequences.sin, options);
}

}  // namespace

Value vision_attention(Context& context, const std::string& module, const VisionAttentionConfig& config,
                       const VisionSequences& sequences, Value x) {
  const Heads heads = projections(context, module, config, x);
  ops::AttentionOptions options;
  options.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  options.causal = false;
  options.max_seqlen_q = static_cast<std::int32_t>(sequences.max_seqlen);
  options.max_seqlen_k = options.max_seqlen_q;
  options.keep_lse = false;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  const Value out =
      ops::attention(context.graph(), turned(context, sequences, heads.q), turned(context, sequences, heads.k), heads.v,
                     sequences.cu_seqlens, sequences.cu_seqlens, options)
          .out;
  return linear(context, cat(module, ".", config.output), ops::as_matrix(context.graph(), out));
}

Value vision_mlp(Context& context, const std::string& module, const VisionMlpConfig& config, Value x) {
  return plain_mlp(context, cat(module, ".", config.first), cat(module, ".", config.second), x, config.act);
}

Value layer_scale(Context& context, const std::string& weight, Value x) {
  ops::MulOptions options;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  graph::Graph& graph = context.graph();
  return ops::mul(graph, x, ops::broadcast_rows(graph, context.weight(weight), graph.desc(x)), options);
}

Value merged_rows(Context& context, Value x, std::int64_t merged, int slot) {
  const TensorDesc& flat = context.graph().desc(x);
  const TensorDesc desc = make_desc(flat.dtype, {flat.shape[0] / merged, merged * flat.shape[1]});
  return context.graph().view(x, with_dynamic(desc, 0, slot), 0);
}

}  // namespace tern::nn
