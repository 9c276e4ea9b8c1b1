#include "models/qwen3.h"

#include "models/layer_windows.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

std::vector<Field> fields() {
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{32}), as_many_as_heads),
                                     .head_dim = otherwise(FieldValue(std::int64_t{128}), hidden_over_heads),
                                     .max_position_embeddings = 32768,
                                     .bos_token_id = std::int64_t{-1},
                                     .eos_token_ids = std::vector<std::int64_t>{}}),
                     with_fields({{"attention_bias",
                                   "",
                                   &ModelConfig::attention_bias,
                                   otherwise(FieldValue(false)),
                                   nullptr,
                                   {GgufTensorSays::What::present, "blk.0.attn_q.bias"}}},
                                 layer_window_fields()));
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(
      config, {.qkv_bias = config.attention_bias, .output_bias = config.attention_bias, .qk_norm = nn::QkNorm::head});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                .kv_heads = config.num_key_value_heads,
                                .head_dim = config.head_dim,
                                .qk_norm = nn::QkNorm::head,
                                .eps = config.rms_norm_eps};
  const std::vector<std::int64_t> windows = layer_windows(config);
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    attention.window = windows[static_cast<std::size_t>(index)];
    x.add(nn::attention(context, module + ".self_attn", attention, inputs,
                        nn::norm(context, module + ".input_layernorm", eps, x)));
    x.add(nn::gated_mlp(context, module + ".mlp", nn::norm(context, module + ".post_attention_layernorm", eps, x)));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

std::vector<nn::CacheSpec> cache_specs(const ModelConfig& config) {
  return attention_caches(config, layer_windows(config));
}

}  // namespace

Architecture qwen3_architecture() {
  return {.name = "Qwen3ForCausalLM",
          .model_type = "qwen3",
          .gguf = "qwen3",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = tied_or_own_head};
}

}  // namespace tern::models
