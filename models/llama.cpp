#include "models/llama.h"

#include "base/strings.h"
#include "nn/attention.h"
#include "ops/act_mul.h"
#include "ops/embedding.h"
#include "ops/rms_norm.h"

namespace tern::models {
namespace {

using ops::Value;

ops::RmsNormOut norm(nn::Context& context, const ModelConfig& config, const std::string& module, Value x,
                     Value residual) {
  ops::RmsNormOptions options;
  options.eps = static_cast<float>(config.rms_norm_eps);
  options.residual = residual;
  options.keep_rstd = context.options().training;
  options.out = context.options().activations;
  options.sum = context.options().activations;
  options.needs = context.options().needs;
  return ops::rms_norm(context.graph(), x, context.weight(module + ".weight"), options);
}

// down(silu(gate(x)) * up(x))
Value mlp(nn::Context& context, const std::string& module, Value x) {
  const Value gate = context.linear(module + ".gate_proj", x);
  const Value up = context.linear(module + ".up_proj", x);
  ops::ActMulOptions options;
  options.kind = TERN_ACT_SILU;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return context.linear(module + ".down_proj", ops::act_mul(context.graph(), gate, up, options));
}

}  // namespace

Value llama_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  context.dropout_keys = inputs.dropout_keys;
  const nn::AttentionConfig attention{config.num_attention_heads, config.num_key_value_heads, config.head_dim,
                                      config.sliding_window};
  // Each norm takes the branch before it as x and adds the residual stream: one pass over memory instead of two.
  Value branch = ops::embedding(context.graph(), context.weight("model.embed_tokens.weight"), inputs.ids,
                                context.options().activations, context.options().needs);
  Value stream;  // absent before the first layer: the embedding itself
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("model.layers.", layer);
    context.begin_layer();
    const auto before_attention = norm(context, config, module + ".input_layernorm", branch, stream);
    const Value attended = nn::attention(context, module + ".self_attn", attention, inputs, before_attention.y);
    const auto before_mlp = norm(context, config, module + ".post_attention_layernorm", attended, before_attention.sum);
    branch = mlp(context, module + ".mlp", before_mlp.y);
    stream = before_mlp.sum;
    context.end_layer();
  }
  return norm(context, config, "model.norm", branch, stream).y;
}

std::vector<ParameterSpec> llama_parameters(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = config.num_attention_heads * config.head_dim;
  const std::int64_t kv = config.num_key_value_heads * config.head_dim;
  const std::int64_t wide = config.intermediate_size;
  std::vector<ParameterSpec> specs;
  specs.push_back({"model.embed_tokens.weight", {config.vocab_size, hidden}, "token_embd.weight"});
  const auto linear = [&](const std::string& name, const std::string& gguf, std::int64_t out, std::int64_t in,
                          bool bias, std::int64_t interleaved_heads = 0) {
    specs.push_back({name + ".weight", {out, in}, gguf + ".weight", interleaved_heads});
    if (bias) specs.push_back({name + ".bias", {out}, gguf + ".bias", interleaved_heads});
  };
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string name = cat("model.layers.", layer);
    const std::string gguf = cat("blk.", layer);
    specs.push_back({name + ".input_layernorm.weight", {hidden}, gguf + ".attn_norm.weight"});
    linear(name + ".self_attn.q_proj", gguf + ".attn_q", q, hidden, config.attention_bias, config.num_attention_heads);
    linear(name + ".self_attn.k_proj", gguf + ".attn_k", kv, hidden, config.attention_bias, config.num_key_value_heads);
    linear(name + ".self_attn.v_proj", gguf + ".attn_v", kv, hidden, config.attention_bias);
    linear(name + ".self_attn.o_proj", gguf + ".attn_output", hidden, q, config.attention_bias);
    specs.push_back({name + ".post_attention_layernorm.weight", {hidden}, gguf + ".ffn_norm.weight"});
    linear(name + ".mlp.gate_proj", gguf + ".ffn_gate", wide, hidden, config.mlp_bias);
    linear(name + ".mlp.up_proj", gguf + ".ffn_up", wide, hidden, config.mlp_bias);
    linear(name + ".mlp.down_proj", gguf + ".ffn_down", hidden, wide, config.mlp_bias);
  }
  specs.push_back({"model.norm.weight", {hidden}, "output_norm.weight"});
  if (!config.tie_word_embeddings) specs.push_back({"lm_head.weight", {config.vocab_size, hidden}, "output.weight"});
  return specs;
}

std::vector<nn::CacheSpec> llama_cache_specs(const ModelConfig& config) {
  std::vector<nn::CacheSpec> specs;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    nn::CacheSpec spec;
    spec.kind = config.sliding_window > 0 ? nn::CacheKind::window : nn::CacheKind::full;
    spec.module = cat("model.layers.", layer, ".self_attn");
    spec.kv_heads = config.num_key_value_heads;
    spec.key_dim = config.head_dim;
    spec.value_dim = config.head_dim;
    spec.window = config.sliding_window;
    specs.push_back(std::move(spec));
  }
  return specs;
}

Architecture llama_architecture() {
  return {"LlamaForCausalLM", "llama", llama_hidden_states, llama_parameters, llama_cache_specs};
}

}  // namespace tern::models
