#include "models/gemma2.h"

#include <cmath>

#include "models/gemma_fields.h"
#include "models/layer_windows.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

constexpr std::int64_t kLayersOf27B = 46;
constexpr float kNormOffset = 1.0F;  // norms multiply by 1 + weight

// llama.cpp tells the largest model, whose scores are scaled otherwise, by its layers.
FieldValue gguf_scalar(const ModelConfig& config) {
  return config.num_hidden_layers == kLayersOf27B ? hidden_over_heads(config) : config.head_dim;
}

FieldValue every_other(const ModelConfig& config) { return periodic_layer_types(config, 2); }

// A cap that null switches off. llama.cpp always caps.
Field softcap(const char* key, double usual) {
  return {key, key, FieldValue(0.0), Default{FieldValue(usual), FieldValue(0.0), FieldValue(usual), true}, is_epsilon};
}

std::vector<Field> fields() {
  // llama.cpp's default.
  Field window = {"sliding_window", "attention.sliding_window", &ModelConfig::sliding_window,
                  Default{FieldValue(std::int64_t{4096}), {}, FieldValue(std::int64_t{4096}), false}, is_size};
  window.also = "sliding_window_size";  // beside it in the published 9B and 27B
  return with_fields(gemma_fields({.max_position_embeddings = 8192, .gguf_scalar = gguf_scalar}),
                     {{"tie_word_embeddings", "", &ModelConfig::tie_word_embeddings, otherwise(FieldValue(true))},
                      softcap("attn_logit_softcapping", 50.0),
                      softcap("final_logit_softcapping", 30.0),
                      std::move(window),
                      layer_types_field(otherwise(every_other))});
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.branch_norms = true, .gguf_norm_added = -kNormOffset});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                .kv_heads = config.num_key_value_heads,
                                .head_dim = config.head_dim,
                                .scale = gemma_attention_scale(config),
                                .softcap = static_cast<float>(config.own_field<double>("attn_logit_softcapping"))};
  const std::vector<std::int64_t> windows = windows_by_type(config);
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    attention.window = windows[static_cast<std::size_t>(index)];
    const nn::Value attended = nn::attention(context, module + ".self_attn", attention, inputs,
                                             nn::norm(context, module + ".input_layernorm", eps, x, kNormOffset));
    x.add(nn::branch_norm(context, module + ".post_attention_layernorm", eps, attended, kNormOffset));
    const nn::Value fed = nn::gated_mlp(context, module + ".mlp",
                                        nn::norm(context, module + ".pre_feedforward_layernorm", eps, x, kNormOffset),
                                        TERN_ACT_GELU_TANH);
    x.add(nn::branch_norm(context, module + ".post_feedforward_layernorm", eps, fed, kNormOffset));
  };
  return nn::decoder(context,
                     {.layers = config.num_hidden_layers,
                      .eps = eps,
                      .norm_offset = kNormOffset,
                      .embedding_scale = std::sqrt(static_cast<double>(config.hidden_size))},
                     inputs, layer);
}

std::vector<nn::CacheSpec> cache_specs(const ModelConfig& config) {
  return attention_caches(config, windows_by_type(config));
}

nn::Head head(const ModelConfig& config) {
  nn::Head head = tied_or_own_head(config);
  head.softcap = static_cast<float>(config.own_field<double>("final_logit_softcapping"));
  return head;
}

}  // namespace

Architecture gemma2_architecture() {
  return {.name = "Gemma2ForCausalLM",
          .model_type = "gemma2",
          .gguf = "gemma2",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = head};
}

}  // namespace tern::models
