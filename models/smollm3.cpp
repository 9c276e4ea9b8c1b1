#include "models/smollm3.h"

#include "models/layer_windows.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

std::vector<Field> fields() {
  using C = ModelConfig;
  const FieldValue size = std::int64_t{0};
  std::vector<Field> all =
      with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{4}), as_many_as_heads),
                                  .head_dim = otherwise(hidden_over_heads),
                                  .max_position_embeddings = 32768,
                                  .bos_token_id = std::int64_t{128000},
                                  .eos_token_ids = std::vector<std::int64_t>{128001}}),
                  {{"rope_theta", "rope.freq_base", &C::rope_theta, otherwise(FieldValue(2000000.0)), is_positive},
                   {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
                    otherwise(FieldValue(std::int64_t{128004}), FieldValue(std::int64_t{-1}))},
                   {"tie_word_embeddings",
                    "",
                    &C::tie_word_embeddings,
                    otherwise(FieldValue(true)),
                    nullptr,
                    {GgufTensorSays::What::absent, "output.weight"}},
                   {"attention_bias",
                    "",
                    &C::attention_bias,
                    otherwise(FieldValue(false)),
                    nullptr,
                    {GgufTensorSays::What::present, "blk.0.attn_q.bias"}},
                   {"mlp_bias",
                    "",
                    &C::mlp_bias,
                    otherwise(FieldValue(false)),
                    nullptr,
                    {GgufTensorSays::What::present, "blk.0.ffn_up.bias"}},
                   full_layer_types_field(),
                   // Without windows it says nothing; use_sliding_window is served as false alone.
                   {"sliding_window", kImplied, size, otherwise(size, size), is_count}});
  return with_fields(std::move(all), turned_layer_fields());
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.qkv_bias = config.attention_bias,
                                     .output_bias = config.attention_bias,
                                     .mlp_bias = config.mlp_bias,
                                     .gguf_interleaved = true});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  nn::AttentionConfig attention{
      .heads = config.num_attention_heads, .kv_heads = config.num_key_value_heads, .head_dim = config.head_dim};
  const auto& turns = config.own_field<std::vector<std::int64_t>>(kTurnedLayers);
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    attention.rope = turns[static_cast<std::size_t>(index)] != 0 ? nn::kDefaultRope : "";
    x.add(nn::attention(context, module + ".self_attn", attention, inputs,
                        nn::norm(context, module + ".input_layernorm", eps, x)));
    x.add(nn::gated_mlp(context, module + ".mlp", nn::norm(context, module + ".post_attention_layernorm", eps, x)));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

}  // namespace

Architecture smollm3_architecture() {
  return {.name = "SmolLM3ForCausalLM",
          .model_type = "smollm3",
          .gguf = "smollm3",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
