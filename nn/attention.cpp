#include "nn/attention.h"

#include <cmath>

#include "base/strings.h"
#include "nn/cache_spec.h"
#include "nn/linear.h"
#include "ops/attention.h"
#include "ops/attention_paged.h"
#include "ops/build.h"
#include "ops/kv_write.h"

namespace tern::nn {
namespace {

// [tokens, heads * head_dim] seen as [tokens, heads, head_dim], or back.
Value split_heads(Context& context, Value x, std::int64_t heads, std::int64_t head_dim) {
  const TensorDesc& flat = context.graph().desc(x);
  const TensorDesc desc = make_desc(flat.dtype, {flat.shape[0], heads, head_dim});
  return context.graph().view(x, ops::rows_like(desc, flat), 0);
}

Value merge_heads(Context& context, Value x) {
  const TensorDesc& split = context.graph().desc(x);
  const TensorDesc desc = make_desc(split.dtype, {split.shape[0], split.shape[1] * split.shape[2]});
  return context.graph().view(x, ops::rows_like(desc, split), 0);
}

// The projection `part` ("q" or "k") of x, split by heads and turned by its positions.
Value rotated(Context& context, const std::string& module, const char* part, const AttentionConfig& config,
              std::int64_t heads, Value positions, Value x) {
  const Value split = split_heads(context, linear(context, cat(module, ".", part, "_proj"), x), heads, config.head_dim);
  if (config.qk_norm) {
    const HeadNorm norm{cat(module, ".", part, "_norm"), config.eps, config.norm_offset};
    return norm_rope(context, norm, split, positions, config.rope);
  }
  return rope(context, split, positions, config.rope);
}

Value attend_paged(Context& context, const std::string& module, const AttentionConfig& config,
                   const TokenInputs& inputs, Value q, Value k, Value v, const ops::AttentionOptions& options) {
  const TensorDesc cache =
      make_desc(inputs.cache_dtype, {inputs.num_blocks, inputs.block_size, config.kv_heads, config.head_dim});
  const ops::KvCache before{context.state(key_cache_name(inputs.cache_scope, module), cache),
                            context.state(value_cache_name(inputs.cache_scope, module), cache)};
  const ops::KvCache written = ops::kv_write(context.graph(), k, v, inputs.slots, before, context.options().needs);
  return ops::attention_paged(context.graph(), q, written, {inputs.block_table, inputs.cu_seqlens, inputs.kv_lens},
                              options)
      .out;
}

}  // namespace

Value attention(Context& context, const std::string& module, const AttentionConfig& config, const TokenInputs& inputs,
                Value x) {
  const Value v = split_heads(context, linear(context, module + ".v_proj", x), config.kv_heads, config.head_dim);
  const Value q = rotated(context, module, "q", config, config.heads, inputs.positions, x);
  const Value k = rotated(context, module, "k", config, config.kv_heads, inputs.positions, x);

  ops::AttentionOptions options;
  options.scale =
      static_cast<float>(config.scale != 0.0 ? config.scale : 1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  options.softcap = config.softcap;
  options.causal = true;
  options.window = static_cast<std::int32_t>(config.window);
  options.max_seqlen_q = static_cast<std::int32_t>(inputs.max_seqlen);
  options.max_seqlen_k = static_cast<std::int32_t>(inputs.paged() ? inputs.max_kv_len : inputs.max_seqlen);
  options.keep_lse = context.options().training;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  const Value out = inputs.paged()
                        ? attend_paged(context, module, config, inputs, q, k, v, options)
                        : ops::attention(context.graph(), q, k, v, inputs.cu_seqlens, inputs.cu_seqlens, options).out;
  return linear(context, module + ".o_proj", merge_heads(context, out));
}

}  // namespace tern::nn
