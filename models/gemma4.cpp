#include "models/gemma4.h"

#include <cmath>

#include "base/strings.h"
#include "models/gemma4_experts.h"
#include "models/gemma4_fields.h"
#include "models/rope.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"
#include "nn/per_layer_input.h"
#include "ops/scale.h"

namespace tern::models {
namespace {

constexpr const char* kLocalRope = "local";  // of layers with a window

std::string attention_module(std::int64_t layer) { return cat("model.layers.", layer, ".self_attn"); }

void add_attention(ParameterList& list, const ModelConfig& config, const Gemma4Layer& layer, const std::string& name,
                   const std::string& gguf) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = config.num_attention_heads * layer.head_dim;
  const std::int64_t kv = layer.kv_heads * layer.head_dim;
  list.linear(name + ".q_proj", gguf + ".attn_q", {q, hidden});
  list.norm(name + ".q_norm", gguf + ".attn_q_norm", layer.head_dim);
  if (layer.source < 0) {
    list.linear(name + ".k_proj", gguf + ".attn_k", {kv, hidden});
    if (!layer.keys_are_values) list.linear(name + ".v_proj", gguf + ".attn_v", {kv, hidden});
    list.norm(name + ".k_norm", gguf + ".attn_k_norm", layer.head_dim);
  }
  list.linear(name + ".o_proj", gguf + ".attn_output", {hidden, q});
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const auto per_layer = config.own_field<std::int64_t>(kPerLayerSize);
  ParameterList list;
  list.embedding("model.embed_tokens", "token_embd", config.vocab_size, hidden);
  if (per_layer > 0) {
    const std::int64_t all = config.num_hidden_layers * per_layer;
    list.embedding("model.embed_tokens_per_layer", "per_layer_token_embd", config.vocab_size, all);
    list.linear("model.per_layer_model_projection", "per_layer_model_proj", {all, hidden});
    list.norm("model.per_layer_projection_norm", "per_layer_proj_norm", per_layer);
  }
  std::int64_t index = 0;
  for (const Gemma4Layer& layer : gemma4_layers(config)) {
    const std::string module = cat("model.layers.", index);
    const std::string gguf = cat("blk.", index++);
    list.norm(module + ".input_layernorm", gguf + ".attn_norm", hidden);
    add_attention(list, config, layer, module + ".self_attn", gguf);
    list.norm(module + ".post_attention_layernorm", gguf + ".post_attention_norm", hidden);
    list.norm(module + ".pre_feedforward_layernorm", gguf + ".ffn_norm", hidden);
    list.linear(module + ".mlp.gate_proj", gguf + ".ffn_gate", {layer.intermediate_size, hidden});
    list.linear(module + ".mlp.up_proj", gguf + ".ffn_up", {layer.intermediate_size, hidden});
    list.linear(module + ".mlp.down_proj", gguf + ".ffn_down", {hidden, layer.intermediate_size});
    if (has_gemma4_experts(config)) add_gemma4_experts(list, config, module, gguf);
    list.norm(module + ".post_feedforward_layernorm", gguf + ".post_ffw_norm", hidden);
    if (per_layer > 0) {
      list.linear(module + ".per_layer_input_gate", gguf + ".inp_gate", {per_layer, hidden});
      list.linear(module + ".per_layer_projection", gguf + ".proj", {hidden, per_layer});
      list.norm(module + ".post_per_layer_input_norm", gguf + ".post_norm", hidden);
    }
    list.tensor(module + ".layer_scalar", {1}, gguf + ".layer_output_scale.weight").is_buffer = true;
  }
  list.norm("model.norm", "output_norm", hidden);
  if (!config.tie_word_embeddings) list.head("lm_head", "output", config.vocab_size, hidden);
  return list.take();
}

std::vector<RopeTable> rope_tables(const ModelConfig& config) {
  ModelConfig local = config;
  local.rotary_dim = config.own_field<std::int64_t>(kLocalHead);
  return {scaled_rope_table(config), {kLocalRope, local_rope_frequencies(local)}};
}

nn::AttentionConfig attention_of(const ModelConfig& config, const Gemma4Layer& layer) {
  return {.heads = config.num_attention_heads,
          .kv_heads = layer.kv_heads,
          .head_dim = layer.head_dim,
          .window = layer.window,
          .scale = 1.0,
          .rope = layer.window > 0 ? kLocalRope : nn::kDefaultRope,
          .qk_norm = nn::QkNorm::head,
          .eps = config.rms_norm_eps,
          .value_norm = true,
          .keys_are_values = layer.keys_are_values,
          .is_shared = layer.is_shared,
          .shares_with = layer.source < 0 ? "" : attention_module(layer.source)};
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const double eps = config.rms_norm_eps;
  const nn::PerLayerInputs own{config.num_hidden_layers, config.own_field<std::int64_t>(kPerLayerSize), eps};
  const std::vector<Gemma4Layer> layers = gemma4_layers(config);
  nn::Value own_inputs;
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    if (own.size > 0 && index == 0)
      own_inputs = nn::per_layer_inputs(context, "model", own, inputs.ids, nn::stream(context, x));
    const nn::AttentionConfig attention = attention_of(config, layers[static_cast<std::size_t>(index)]);
    const nn::Value attended = nn::attention(context, module + ".self_attn", attention, inputs,
                                             nn::norm(context, module + ".input_layernorm", eps, x));
    x.add(nn::branch_norm(context, module + ".post_attention_layernorm", eps, attended));
    nn::Value fed = nn::gated_mlp(context, module + ".mlp",
                                  nn::norm(context, module + ".pre_feedforward_layernorm", eps, x), TERN_ACT_GELU_TANH);
    if (has_gemma4_experts(config)) fed = beside_gemma4_experts(context, config, module, nn::stream(context, x), fed);
    x.add(nn::branch_norm(context, module + ".post_feedforward_layernorm", eps, fed));
    if (own.size > 0) x.add(nn::per_layer_branch(context, module, own, index, own_inputs, nn::stream(context, x)));
    ops::ScaleOptions scale;
    scale.out = context.options().activations;
    scale.needs = context.options().needs;
    const nn::Value factor = context.weight(module + ".layer_scalar");
    x = nn::Residual(ops::scale(context.graph(), nn::stream(context, x), factor, scale));
  };
  return nn::decoder(context,
                     {.layers = config.num_hidden_layers,
                      .eps = eps,
                      .embedding_scale = std::sqrt(static_cast<double>(config.hidden_size)),
                      .scales_noise = false},  // transformers' module of embeddings multiplies them itself
                     inputs, layer);
}

std::vector<nn::CacheSpec> cache_specs(const ModelConfig& config) {
  std::vector<nn::CacheSpec> specs;
  std::int64_t index = 0;
  for (const Gemma4Layer& layer : gemma4_layers(config)) {
    const std::string module = attention_module(index++);
    if (layer.source >= 0) {
      specs.push_back({.kind = nn::CacheKind::shared, .module = module, .shares_with = attention_module(layer.source)});
      continue;
    }
    specs.push_back({.kind = layer.window > 0 ? nn::CacheKind::window : nn::CacheKind::full,
                     .module = module,
                     .kv_heads = layer.kv_heads,
                     .key_dim = layer.head_dim,
                     .value_dim = layer.head_dim,
                     .window = layer.window});
  }
  return specs;
}

nn::Head head(const ModelConfig& config) {
  nn::Head head = tied_or_own_head(config);
  head.softcap = static_cast<float>(config.own_field<double>(kLogitCap));
  return head;
}

}  // namespace

Architecture gemma4_architecture() {
  return {.name = "Gemma4ForCausalLM",
          .model_type = "gemma4_text",
          .gguf = "gemma4",
          .fields = gemma4_fields(),
          .gguf_rope_factors = true,
          .rope_by_layer_type = true,
          .settle_json = settle_gemma4,
          .parameters = parameters,
          .rope_tables = rope_tables,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = head};
}

}  // namespace tern::models
