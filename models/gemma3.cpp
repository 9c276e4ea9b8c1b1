#include "models/gemma3.h"

#include <cmath>

#include "models/gemma_fields.h"
#include "models/layer_windows.h"
#include "models/rope.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"
#include "nn/rope.h"

namespace tern::models {
namespace {

constexpr const char* kLocalRope = "local";  // of layers with a window
constexpr std::int64_t kLayersOf27B = 62;
constexpr float kNormOffset = 1.0F;  // norms multiply by 1 + weight

// llama.cpp tells the largest model, whose scores are scaled otherwise, by its layers.
FieldValue gguf_scalar(const ModelConfig& config) {
  return config.num_hidden_layers == kLayersOf27B ? hidden_over_heads(config) : config.head_dim;
}

FieldValue by_pattern(const ModelConfig& config) {
  return periodic_layer_types(config, config.own_field<std::int64_t>("sliding_window_pattern"));
}

std::vector<Field> fields() {
  const FieldValue theta = 10000.0;
  const FieldValue none = 0.0;
  const FieldValue pattern = std::int64_t{6};
  return with_fields(
      gemma_fields({.max_position_embeddings = 131072, .gguf_scalar = gguf_scalar}),
      // The text_config of the published 4B leaves out what is usual.
      {{"num_attention_heads", "attention.head_count", &ModelConfig::num_attention_heads,
        required_in_gguf(std::int64_t{8}), is_size},
       {"vocab_size",
        "",
        &ModelConfig::vocab_size,
        required_in_gguf(std::int64_t{262208}),
        is_size,
        {GgufTensorSays::What::rows, "token_embd.weight"}},
       {"tie_word_embeddings",
        "",
        &ModelConfig::tie_word_embeddings,
        otherwise(FieldValue(true)),
        nullptr,
        {GgufTensorSays::What::absent, "output.weight"}},
       {"rope_theta", "rope.freq_base", &ModelConfig::rope_theta,
        Default{FieldValue(1000000.0), FieldValue(1000000.0), theta, false}, is_positive},
       {"rope_local_base_freq", "rope.freq_base_swa", &ModelConfig::rope_local_theta, otherwise(theta), is_positive},
       {"final_logit_softcapping", "final_logit_softcapping", none, otherwise(none, none), is_epsilon},
       {"sliding_window_pattern", "attention.sliding_window_pattern", pattern, otherwise(pattern), is_size},
       layer_types_field(otherwise(by_pattern))});
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config,
                            {.qk_norm = nn::QkNorm::head, .branch_norms = true, .gguf_norm_added = -kNormOffset});
}

std::vector<RopeTable> rope_tables(const ModelConfig& config) {
  return {scaled_rope_table(config), {kLocalRope, local_rope_frequencies(config)}};
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const double eps = config.rms_norm_eps;
  nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                .kv_heads = config.num_key_value_heads,
                                .head_dim = config.head_dim,
                                .scale = gemma_attention_scale(config),
                                .qk_norm = nn::QkNorm::head,
                                .eps = eps,
                                .norm_offset = kNormOffset};
  const std::vector<std::int64_t> windows = windows_by_type(config);
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    attention.window = windows[static_cast<std::size_t>(index)];
    attention.rope = attention.window > 0 ? kLocalRope : nn::kDefaultRope;
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
                      .embedding_scale = std::sqrt(static_cast<double>(config.hidden_size)),
                      .scales_noise = false},  // transformers' module of embeddings multiplies them itself
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

Architecture gemma3_architecture() {
  return {.name = "Gemma3ForCausalLM",
          .model_type = "gemma3_text",
          .gguf = "gemma3",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = rope_tables,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = head};
}

}  // namespace tern::models
