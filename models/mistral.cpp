#include "models/mistral.h"

#include <algorithm>
#include <string_view>

#include "models/rope.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

std::vector<Field> fields() {
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{8}), as_many_as_heads),
                                     .head_dim = otherwise(hidden_over_heads),
                                     .max_position_embeddings = 131072,
                                     .bos_token_id = std::int64_t{1},
                                     .eos_token_ids = std::vector<std::int64_t>{2}}),
                     {{"sliding_window", "attention.sliding_window", &ModelConfig::sliding_window,
                       otherwise(FieldValue(std::int64_t{4096}), FieldValue(std::int64_t{0})), is_count}});
}

constexpr const char* kQueryRope = "queries";

std::vector<Field> fields_of_ministral3() {
  using C = ModelConfig;
  auto all = with_fields(
      decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{8}), as_many_as_heads),
                      .head_dim = otherwise(FieldValue(std::int64_t{128}), hidden_over_heads),
                      .max_position_embeddings = 262144,
                      .bos_token_id = std::int64_t{1},
                      .eos_token_ids = std::vector<std::int64_t>{2}}),
      {{"rms_norm_eps", "attention.layer_norm_rms_epsilon", &C::rms_norm_eps, required_in_gguf(1e-5), is_epsilon},
       {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
        otherwise(FieldValue(std::int64_t{11}), FieldValue(std::int64_t{-1}))},
       {"rope_theta", "rope.freq_base", &C::rope_theta,
        Default{FieldValue(1e6), FieldValue(1e6), FieldValue(1e4), false}, is_positive},
       {"sliding_window", "", &C::sliding_window, otherwise(FieldValue(std::int64_t{0}), FieldValue(std::int64_t{0})),
        is_count},
       query_growth_field()});
  const auto turned = std::find_if(all.begin(), all.end(), [](const Field& field) {
    return std::string_view(field.gguf) == "rope.dimension_count";
  });
  turned->law = is_head_size;  // the table of queries makes whole heads grow
  return all;
}

std::vector<RopeTable> rope_tables_of_ministral3(const ModelConfig& config) {
  return {scaled_rope_table(config), query_rope_table(config, kQueryRope)};
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.gguf_interleaved = true});
}

nn::Value hidden_states_with(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs,
                             const char* query_rope) {
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .window = config.sliding_window,
                                      .query_rope = query_rope};
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t /*index*/, const std::string& module, nn::Residual& x) {
    x.add(nn::attention(context, module + ".self_attn", attention, inputs,
                        nn::norm(context, module + ".input_layernorm", eps, x)));
    x.add(nn::gated_mlp(context, module + ".mlp", nn::norm(context, module + ".post_attention_layernorm", eps, x)));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return hidden_states_with(context, config, inputs, "");
}
nn::Value hidden_states_of_ministral3(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return hidden_states_with(context, config, inputs, kQueryRope);
}

}  // namespace

Architecture mistral_architecture() {
  return {.name = "MistralForCausalLM",
          .model_type = "mistral",
          .gguf = "llama",  // llama.cpp has no other name for it
          .fields = fields(),
          .gguf_rope_factors = true,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

Architecture ministral3_architecture() {
  return {.name = "Ministral3ForCausalLM",
          .model_type = "ministral3",
          .gguf = "mistral3",
          .fields = fields_of_ministral3(),
          .gguf_rope_factors = true,
          .gguf_yarn_multiplier = true,
          .parameters = parameters,
          .rope_tables = rope_tables_of_ministral3,
          .hidden_states = hidden_states_of_ministral3,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
