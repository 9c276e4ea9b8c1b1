#include "nn/attention.h"

#include <cmath>
#include <stdexcept>

#include "base/strings.h"
#include "nn/activation.h"
#include "nn/cache_spec.h"
#include "nn/heads.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/scale.h"
#include "ops/attention.h"
#include "ops/attention_paged.h"
#include "ops/build.h"
#include "ops/kv_write.h"
#include "ops/mul.h"

namespace tern::nn {
namespace {

// Queries, keys and values, split by heads: [tokens, heads, head_dim].
struct Projections {
  Value q, k, v;
  Value gate;  // of what attention gives; absent: none
};

// Of [tokens, heads * 2 head_dim], each head's first half or its second: [tokens, heads, head_dim].
Value half_heads(Context& context, Value both, const AttentionConfig& config, std::int64_t half) {
  const TensorDesc& flat = context.graph().desc(both);
  TensorDesc part = ops::rows_like(make_desc(flat.dtype, {flat.shape[0], config.heads, config.head_dim}), flat);
  part.strides[0] = flat.strides[0];
  part.strides[1] = 2 * config.head_dim;
  return context.graph().view(both, part, half * config.head_dim);
}

// What attention gives times the sigmoid of its gate.
Value gated(Context& context, Value gate, Value out) {
  ops::MulOptions product;
  product.out = context.options().activations;
  product.needs = context.options().needs;
  return ops::mul(context.graph(), out, activation(context, gate, TERN_ACT_SIGMOID), product);
}

std::string norm_name(const std::string& module, const char* part, const AttentionConfig& config) {
  return cat(module, ".", *part == 'q' ? config.names.q_norm : config.names.k_norm);
}

Projections projections(Context& context, const std::string& module, const AttentionConfig& config, Value x) {
  if (config.fused_qkv) {
    const Value all = linear(context, cat(module, ".", config.names.qkv), x);
    const std::int64_t keys = config.heads * config.head_dim;
    const std::int64_t values = keys + config.kv_heads * config.head_dim;
    return {heads_of(context, all, 0, config.heads, config.head_dim),
            heads_of(context, all, keys, config.kv_heads, config.head_dim),
            heads_of(context, all, values, config.kv_heads, config.head_dim),
            {}};
  }
  const auto project = [&](const char* part, std::int64_t heads) {
    const std::string& name = *part == 'q' ? config.names.q : *part == 'k' ? config.names.k : config.names.v;
    Value projected = linear(context, cat(module, ".", name), x);
    if (config.qk_norm == QkNorm::whole && *part != 'v') {
      projected = branch_norm(context, norm_name(module, part, config), config.eps, projected, config.norm_offset);
    }
    return heads_of(context, projected, 0, heads, config.head_dim);
  };
  if (!config.shares_with.empty()) return {project("q", config.heads), {}, {}, {}};
  if (config.keys_are_values) {
    const Value k = project("k", config.kv_heads);
    return {project("q", config.heads), k, k, {}};
  }
  const Value v = project("v", config.kv_heads);
  if (config.is_gated) {
    const Value both = linear(context, module + ".q_proj", x);
    return {half_heads(context, both, config, 0), project("k", config.kv_heads), v,
            half_heads(context, both, config, 1)};
  }
  const Value q = project("q", config.heads);
  return {q, project("k", config.kv_heads), v, {}};
}

// Queries or keys ("q" or "k") turned by their positions.
Value rotated(Context& context, const std::string& module, const char* part, const AttentionConfig& config,
              Value positions, Value split) {
  const std::string& kind = *part == 'q' && !config.query_rope.empty() ? config.query_rope : config.rope;
  if (config.qk_norm == QkNorm::head) {
    if (kind.empty() || config.rope_interleaved) throw std::logic_error("norms over heads come with turned halves");
    return norm_rope(context, {norm_name(module, part, config), config.eps, config.norm_offset}, split, positions,
                     kind);
  }
  if (!kind.empty()) split = rope(context, split, positions, kind, config.rope_interleaved);
  return config.qk_norm == QkNorm::turned ? norm_heads(context, split, config.eps) : split;
}

// Logits are fp32, whatever weights are held in.
Value sinks(Context& context, const std::string& module) { return as_f32(context, context.weight(module + ".sinks")); }

struct KeysValues {
  Value k, v;
};

// Turned and normed: the layer's own, which later ones may read, or those that one before it kept.
KeysValues keys_values(Context& context, const std::string& module, const AttentionConfig& config, Value positions,
                       const Projections& split) {
  const std::string k_name = ".keys";
  const std::string v_name = ".values";
  if (!config.shares_with.empty())
    return {context.kept(config.shares_with + k_name), context.kept(config.shares_with + v_name)};
  KeysValues own = {rotated(context, module, "k", config, positions, split.k), split.v};
  if (config.value_norm) own.v = norm_heads(context, own.v, config.eps);
  if (config.is_shared) {
    context.keep(module + k_name, own.k);
    context.keep(module + v_name, own.v);
  }
  return own;
}

ops::KvCache cache_of(Context& context, const std::string& owner, const AttentionConfig& config,
                      const TokenInputs& inputs) {
  const TensorDesc desc =
      cache_desc(inputs.cache_dtype, inputs.num_blocks, inputs.block_size, config.kv_heads, config.head_dim);
  ops::KvCache cache{context.state(key_cache_name(inputs.cache_scope, owner), desc),
                     context.state(value_cache_name(inputs.cache_scope, owner), desc)};
  if (ops::has_scales(inputs.cache_dtype)) {
    const TensorDesc scales = scale_desc(inputs.num_blocks, inputs.block_size, config.kv_heads);
    cache.k_scale = context.state(key_scale_name(inputs.cache_scope, owner), scales);
    cache.v_scale = context.state(value_scale_name(inputs.cache_scope, owner), scales);
  }
  return cache;
}

Value attend_paged(Context& context, const std::string& module, const AttentionConfig& config,
                   const TokenInputs& inputs, Value q, const Projections& split, const ops::AttentionOptions& options) {
  ops::KvCache cache = cache_of(context, config.shares_with.empty() ? module : config.shares_with, config, inputs);
  if (config.shares_with.empty()) {
    const auto [k, v] = keys_values(context, module, config, inputs.positions, split);
    cache = ops::kv_write(context.graph(), k, v, inputs.slots, cache, context.options().needs);
  }
  return ops::attention_paged(context.graph(), q, cache, {inputs.block_table, inputs.cu_seqlens, inputs.kv_lens},
                              options)
      .out;
}

Value attend_packed(Context& context, const std::string& module, const AttentionConfig& config,
                    const TokenInputs& inputs, Value q, const Projections& split,
                    const ops::AttentionOptions& options) {
  const auto [k, v] = keys_values(context, module, config, inputs.positions, split);
  return ops::attention(context.graph(), q, k, v, inputs.cu_seqlens, inputs.cu_seqlens, options).out;
}

}  // namespace

Value attention(Context& context, const std::string& module, const AttentionConfig& config, const TokenInputs& inputs,
                Value x) {
  if (!config.causal && inputs.paged()) throw std::logic_error("a cache has no keys of the tokens to come");
  const Projections split = projections(context, module, config, x);
  const Value q = rotated(context, module, "q", config, inputs.positions, split.q);

  ops::AttentionOptions options;
  options.scale =
      static_cast<float>(config.scale != 0.0 ? config.scale : 1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  options.softcap = config.softcap;
  if (config.has_sinks) options.sinks = sinks(context, module);
  options.causal = config.causal;
  options.window = static_cast<std::int32_t>(config.window);
  options.window_right = static_cast<std::int32_t>(config.window_right);
  options.chunk = static_cast<std::int32_t>(config.chunk);
  options.max_seqlen_q = static_cast<std::int32_t>(inputs.max_seqlen);
  options.max_seqlen_k = static_cast<std::int32_t>(inputs.paged() ? inputs.max_kv_len : inputs.max_seqlen);
  if (inputs.images && !inputs.images->masks.empty()) {  // which say the whole rule
    options.mask = inputs.images->masks.at(config.window);
    options.causal = false;
    options.window = 0;
  }
  options.keep_lse = context.options().training;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  Value out = inputs.paged() ? attend_paged(context, module, config, inputs, q, split, options)
                             : attend_packed(context, module, config, inputs, q, split, options);
  if (split.gate.present()) out = gated(context, split.gate, out);
  return linear(context, cat(module, ".", config.names.output), ops::as_matrix(context.graph(), out));
}

}  // namespace tern::nn
