#include "nn/latent_attention.h"

#include <array>
#include <optional>

#include "base/strings.h"
#include "nn/cache_spec.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "ops/attention.h"
#include "ops/attention_paged.h"
#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/dequantize.h"
#include "ops/kv_write.h"
#include "ops/matmul.h"
#include "ops/mul.h"

namespace tern::nn {
namespace {

constexpr bool kNeighbours = true;  // pairs that turn

// Of x [tokens, heads * width] or [tokens, heads, width]: features [first, first + count) of each head, [tokens, heads,
// count].
Value features(Context& context, Value x, std::int64_t heads, std::int64_t first, std::int64_t count) {
  const TensorDesc whole = context.graph().desc(x);
  TensorDesc part = ops::rows_like(make_desc(whole.dtype, {whole.shape[0], heads, count}), whole);
  part.strides[0] = whole.strides[0];
  part.strides[1] = whole.rank == 3 ? whole.strides[1] : whole.shape[1] / heads;
  return context.graph().view(x, part, first);
}

// [tokens, heads, width] seen as [heads, tokens, width], or back.
Value by_head(Context& context, Value x) {
  const TensorDesc given = context.graph().desc(x);
  TensorDesc turned = make_desc(given.dtype, {given.shape[1], given.shape[0], given.shape[2]});
  for (const auto& [to, from] : {std::array{0, 1}, {1, 0}, {2, 2}}) turned.strides[to] = given.strides[from];
  if (ops::is_dynamic(given)) turned = with_dynamic(turned, 1 - given.dynamic_dim, given.count_slot);
  return context.graph().view(x, turned, 0);
}

// [tokens, heads, width], to be put together from parts.
Value heads_buffer(Context& context, Value rows, std::int64_t heads, std::int64_t width) {
  const TensorDesc& like = context.graph().desc(rows);
  const TensorDesc desc = make_desc(context.options().activations, {like.shape[0], heads, width});
  return context.graph().buffer(ops::rows_like(desc, like));
}

// Writes x [tokens, heads, count] as features [first, first + count) of the buffer, which is given back as it is then.
Value put(Context& context, Value x, Value buffer, std::int64_t first) {
  graph::Graph& graph = context.graph();
  const TensorDesc part = graph.desc(x);
  const Value whole = graph.latest(buffer);
  const Value place = features(context, whole, part.shape[1], first, part.shape[2]);
  ops::CastCopyOptions copy;
  copy.out = context.options().activations;
  copy.at = place;
  copy.needs = context.options().needs;
  (void)ops::cast_copy(graph, x, copy);
  return graph.latest(buffer);
}

struct Queries {
  Value all;  // [tokens, heads * (plain_dim + turned_dim)]
  Value low;  // [tokens, q_rank]; absent: there is no latent vector
};
Queries queries(Context& context, const std::string& module, const LatentAttentionConfig& config, Value x) {
  if (config.q_rank == 0) return {linear(context, module + ".q_proj", x), {}};
  const Value low =
      branch_norm(context, module + ".q_a_layernorm", config.eps, linear(context, module + ".q_a_proj", x));
  return {linear(context, module + ".q_b_proj", low), low};
}

struct Parts {
  Value q_plain, q_turned;  // [tokens, heads, plain_dim], [tokens, heads, turned_dim]
  Value latent, k_turned;   // [tokens, kv_rank], [tokens, 1, turned_dim]
  Value mask;               // [tokens, keys] bool: the keys that each sees; absent: all before it
};

// As many heads see the one.
Value seen_by_all(Context& context, Value one, std::int64_t heads) {
  TensorDesc wide = context.graph().desc(one);
  wide.shape[1] = heads;
  wide.strides[1] = 0;
  return context.graph().view(one, wide, 0);
}

ops::AttentionOptions attention_options(Context& context, const LatentAttentionConfig& config,
                                        const TokenInputs& inputs, Value mask) {
  ops::AttentionOptions options;
  options.mask = mask;
  options.scale = static_cast<float>(config.scale);
  options.max_seqlen_q = static_cast<std::int32_t>(inputs.max_seqlen);
  options.max_seqlen_k = static_cast<std::int32_t>(inputs.paged() ? inputs.max_kv_len : inputs.max_seqlen);
  options.keep_lse = context.options().training;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return options;
}

// [tokens, heads, value_dim].
Value attend_expanded(Context& context, const std::string& module, const LatentAttentionConfig& config,
                      const TokenInputs& inputs, const Parts& parts) {
  const std::int64_t heads = config.heads;
  const Value kv = linear(context, module + ".kv_b_proj", parts.latent);
  const Value q = heads_buffer(context, parts.latent, heads, config.plain_dim + config.turned_dim);
  put(context, parts.q_plain, q, 0);
  const Value whole_q = put(context, parts.q_turned, q, config.plain_dim);
  const Value k = heads_buffer(context, parts.latent, heads, config.plain_dim + config.turned_dim);
  put(context, features(context, kv, heads, 0, config.plain_dim), k, 0);
  const Value whole_k = put(context, seen_by_all(context, parts.k_turned, heads), k, config.plain_dim);
  const Value v = features(context, kv, heads, config.plain_dim, config.value_dim);
  return ops::attention(context.graph(), whole_q, whole_k, v, inputs.cu_seqlens, inputs.cu_seqlens,
                        attention_options(context, config, inputs, parts.mask))
      .out;
}

// kv_b_proj's matrix, by whose rows the heads' keys and values are made.
class HeadMatrix {
 public:
  HeadMatrix(Context& context, const std::string& module, const LatentAttentionConfig& config)
      : context_(context), config_(config), weight_(context.weight(module + ".weight")) {
    if (is_quantised(context.graph().desc(weight_)))
      weight_ = ops::dequantize(context.graph(), weight_, context.options().activations, context.options().needs);
    const auto adapter = context.options().adapters.find(module);
    if (adapter == context.options().adapters.end()) return;
    a_ = with_factors(context.weight(adapter->second.lora_a), adapter->second.inner);
    b_ = with_factors(context.weight(adapter->second.lora_b), adapter->second.after);
    scaling_ = adapter->second.scaling;
  }

  // [heads, tokens, plain_dim] -> [heads, tokens, kv_rank], by the rows of keys.
  Value to_latent(Value q) {
    const Value out = product(q, rows(weight_, 0, config_.plain_dim), false);
    if (!a_.present()) return out;
    const Value low = to_rank(q, rows(b_, 0, config_.plain_dim), false);
    return from_rank(low, of_every_head(a_), false, out);
  }
  // [heads, tokens, kv_rank] -> [heads, tokens, value_dim], by the rows of values.
  Value to_values(Value latent) {
    const Value out = product(latent, rows(weight_, config_.plain_dim, config_.value_dim), true);
    if (!a_.present()) return out;
    const Value low = to_rank(latent, of_every_head(a_), true);
    return from_rank(low, rows(b_, config_.plain_dim, config_.value_dim), true, out);
  }

 private:
  // Each row by a factor of its own.
  Value with_factors(Value matrix, const std::string& factors) {
    if (factors.empty()) return matrix;
    graph::Graph& graph = context_.graph();
    TensorDesc wide = graph.desc(matrix);
    const Value vector = context_.weight(factors);
    wide.strides[0] = graph.desc(vector).strides[0];
    wide.strides[1] = 0;
    return ops::mul(graph, matrix, graph.view(vector, wide, 0), {.needs = context_.options().needs});
  }
  // Of a matrix [heads * (plain_dim + value_dim), width], each head's rows [first, first + count): [heads, count,
  // width].
  Value rows(Value matrix, std::int64_t first, std::int64_t count) {
    const TensorDesc whole = context_.graph().desc(matrix);
    TensorDesc part = make_desc(whole.dtype, {config_.heads, count, whole.shape[1]});
    part.strides[0] = (config_.plain_dim + config_.value_dim) * whole.strides[0];
    part.strides[1] = whole.strides[0];
    return context_.graph().view(matrix, part, first * whole.strides[0]);
  }
  Value of_every_head(Value matrix) {
    const TensorDesc one = context_.graph().desc(matrix);
    TensorDesc all = make_desc(one.dtype, {config_.heads, one.shape[0], one.shape[1]});
    all.strides[0] = 0;
    all.strides[1] = one.strides[0];
    return context_.graph().view(matrix, all, 0);
  }
  // Of the weight, in the model's compute.
  Value product(Value x, Value w, bool transposed) {
    return multiply(x, w, {.transposed = transposed, .compute = context_.options().compute});
  }
  // Adapters are fp32, in their products, too.
  Value to_rank(Value x, Value w, bool transposed) {
    return multiply(x, w, {.transposed = transposed, .alpha = scaling_, .out = TERN_F32});
  }
  Value from_rank(Value x, Value w, bool transposed, Value into) {
    return multiply(x, w, {.transposed = transposed, .into = into});
  }
  struct Product {
    bool transposed = false;
    tern_compute compute = TERN_COMPUTE_F32;
    float alpha = 1.0F;
    Value into = {};
    std::optional<tern_dtype> out = {};  // none: that of activations
  };
  Value multiply(Value x, Value w, const Product& how) {
    ops::MatmulOptions options;
    options.transpose_b = how.transposed;
    options.compute = how.compute;
    options.alpha = how.alpha;
    options.out = how.out.value_or(context_.options().activations);
    options.into = how.into;
    options.needs = context_.options().needs;
    return ops::matmul(context_.graph(), x, w, options);
  }

  Context& context_;
  const LatentAttentionConfig& config_;
  Value weight_, a_, b_;
  float scaling_ = 1.0F;
};

// The same by the latent vectors in the cache.
Value attend_paged(Context& context, const std::string& module, const LatentAttentionConfig& config,
                   const TokenInputs& inputs, const Parts& parts) {
  graph::Graph& graph = context.graph();
  const std::int64_t width = latent_width(config);
  HeadMatrix matrix(context, module + ".kv_b_proj", config);

  const Value q = heads_buffer(context, parts.latent, config.heads, width);
  put(context, by_head(context, matrix.to_latent(by_head(context, parts.q_plain))), q, 0);
  const Value whole_q = put(context, parts.q_turned, q, config.kv_rank);
  const Value k = heads_buffer(context, parts.latent, 1, width);
  put(context, features(context, parts.latent, 1, 0, config.kv_rank), k, 0);
  const Value whole_k = put(context, parts.k_turned, k, config.kv_rank);

  const TensorDesc cache = cache_desc(inputs.cache_dtype, inputs.num_blocks, inputs.block_size, 1, width);
  const ops::KvCache before{context.state(key_cache_name(inputs.cache_scope, module), cache), {}};
  ops::KvCache written = ops::kv_write(graph, whole_k, {}, inputs.slots, before, context.options().needs);
  TensorDesc values = cache;
  values.shape[3] = config.kv_rank;  // the first features of each key
  written.v = graph.view(written.k, values, 0);
  const Value out =
      ops::attention_paged(graph, whole_q, written, {inputs.block_table, inputs.cu_seqlens, inputs.kv_lens},
                           attention_options(context, config, inputs, parts.mask))
          .out;
  return by_head(context, matrix.to_values(by_head(context, out)));
}

}  // namespace

Value latent_attention(Context& context, const std::string& module, const LatentAttentionConfig& config,
                       const TokenInputs& inputs, Value x) {
  graph::Graph& graph = context.graph();
  const auto [q, low] = queries(context, module, config, x);
  const Value down = linear(context, module + ".kv_a_proj_with_mqa", x);
  const auto turn = [&](Value part, const std::string& kind) {
    return rope(context, part, inputs.positions, kind, kNeighbours);
  };
  Parts parts;
  parts.q_plain = features(context, q, config.heads, 0, config.plain_dim);
  if (!config.plain_query_rope.empty()) parts.q_plain = turn(parts.q_plain, config.plain_query_rope);
  parts.q_turned = turn(features(context, q, config.heads, config.plain_dim, config.turned_dim), config.query_rope);
  parts.latent =
      branch_norm(context, module + ".kv_a_layernorm", config.eps, ops::columns(graph, down, 0, config.kv_rank));
  parts.k_turned = turn(features(context, down, 1, config.kv_rank, config.turned_dim), kDefaultRope);
  if (config.indexer.topk > 0) parts.mask = chosen_keys(context, module + ".indexer", config.indexer, inputs, {x, low});
  const Value out = inputs.paged() ? attend_paged(context, module, config, inputs, parts)
                                   : attend_expanded(context, module, config, inputs, parts);
  const Value flat = ops::contiguous(graph, out, context.options().needs);
  const TensorDesc& split = graph.desc(flat);
  const TensorDesc merged = make_desc(split.dtype, {split.shape[0], split.shape[1] * split.shape[2]});
  return linear(context, module + ".o_proj", graph.view(flat, ops::rows_like(merged, split), 0));
}

}  // namespace tern::nn
