#include "models/qwen3_5.h"

#include "models/delta_layers.h"
#include "models/experts.h"
#include "models/rope.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

constexpr double kTurned = 0.25;  // of each head, where a configuration doesn't say it

std::string is_swish(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& name = std::get<std::string>(value);
  return name == "swish" || name == "silu" ? "" : "\"swish\" or \"silu\"";
}

std::vector<Field> common_fields(std::int64_t key_value_heads) {
  const FieldValue size = std::int64_t{0};
  const FieldValue none = std::int64_t{0};
  Field layers = {"num_hidden_layers", "block_count", &ModelConfig::num_hidden_layers, required(), is_layers};
  layers.gguf_less = "nextn_predict_layers";
  std::vector<Field> fields = {
      std::move(layers),
      {"mtp_num_hidden_layers", kImplied, size, otherwise(none), is_count},
      {"attention_bias", "", &ModelConfig::attention_bias, otherwise(FieldValue(false))},
      {"attn_output_gate", kImplied, FieldValue(true), otherwise(FieldValue(true)), is_true},
      {"output_gate_type", kImplied, FieldValue(std::string()), otherwise(FieldValue(std::string("swish"))), is_swish},
      partial_rotary_field(kTurned),
      rope_sections_field({11, 11, 10, 0}),
  };
  fields = with_fields(std::move(fields), delta_layer_fields());
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(key_value_heads), as_many_as_heads),
                                     .head_dim = otherwise(FieldValue(std::int64_t{256}), hidden_over_heads),
                                     .max_position_embeddings = 32768,
                                     .bos_token_id = std::int64_t{-1},
                                     .eos_token_ids = std::vector<std::int64_t>{}}),
                     std::move(fields));
}

std::vector<Field> expert_sizes() {
  const FieldValue size = std::int64_t{0};
  const auto count = [](std::int64_t value) { return FieldValue(value); };
  return {
      {"intermediate_size", "feed_forward_length", &ModelConfig::intermediate_size, otherwise(count(0)), is_count},
      {"num_experts", "expert_count", size, required_in_gguf(count(256)), is_experts},
      {"num_experts_per_tok", "expert_used_count", size, required_in_gguf(count(8)), is_top_k},
      {"moe_intermediate_size", "expert_feed_forward_length", size, required_in_gguf(count(512)), is_size},
      {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", size, required_in_gguf(count(512)),
       is_size},
  };
}

std::vector<ParameterSpec> dense_parameters(const ModelConfig& config) {
  return delta_layer_parameters(config, Projections::apart,
                                {.qkv_bias = config.attention_bias, .output_bias = config.attention_bias});
}

std::vector<ParameterSpec> moe_parameters(const ModelConfig& config) {
  return delta_layer_parameters(
      config, Projections::apart,
      {.qkv_bias = config.attention_bias,
       .output_bias = config.attention_bias,
       .sparse_layers = std::vector<bool>(static_cast<std::size_t>(config.num_hidden_layers), true),
       .experts = {.experts = config.own_field<std::int64_t>("num_experts"),
                   .inner = config.own_field<std::int64_t>("moe_intermediate_size"),
                   .shared_inner = config.own_field<std::int64_t>("shared_expert_intermediate_size"),
                   .shared_gated = true,
                   .fused = {".experts.gate_up_proj", ".experts.down_proj", ".gate.weight", true}}});
}

FeedForward dense_feed_forward(nn::Context& context) {
  return [&context](std::int64_t /*layer*/, const std::string& module, nn::Value x) {
    return nn::gated_mlp(context, module, x);
  };
}

FeedForward moe_feed_forward(nn::Context& context, const ModelConfig& config) {
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>("num_experts"),
                          .top_k = config.own_field<std::int64_t>("num_experts_per_tok"),
                          .normalise = true,
                          .shared = "shared_expert",
                          .shared_gated = true,
                          .balanced = true};
  return [&context, moe](std::int64_t /*layer*/, const std::string& module, nn::Value x) {
    return nn::moe(context, module, moe, x);
  };
}

nn::DecoderLayer dense_layer(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return delta_layer(context, config, Projections::apart, inputs, dense_feed_forward(context));
}

nn::DecoderLayer moe_layer(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return delta_layer(context, config, Projections::apart, inputs, moe_feed_forward(context, config));
}

nn::Value dense_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return delta_hidden_states(context, config, Projections::apart, inputs, dense_feed_forward(context));
}

nn::Value moe_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return delta_hidden_states(context, config, Projections::apart, inputs, moe_feed_forward(context, config));
}

}  // namespace

Architecture qwen3_5_architecture() {
  return {.name = "Qwen3_5ForCausalLM",
          .model_type = "qwen3_5_text",
          .gguf = "qwen35",
          .fields = common_fields(4),
          .gguf_rope_factors = false,
          .parameters = dense_parameters,
          .rope_tables = one_rope_table,
          .hidden_states = dense_hidden_states,
          .layer = dense_layer,
          .predicts_apart = true,
          .cache_specs = delta_layer_caches,
          .head = tied_or_own_head};
}

Architecture qwen3_5_moe_architecture() {
  return {.name = "Qwen3_5MoeForCausalLM",
          .model_type = "qwen3_5_moe_text",
          .gguf = "qwen35moe",
          .fields = with_fields(common_fields(2), expert_sizes()),
          .gguf_rope_factors = false,
          .parameters = moe_parameters,
          .rope_tables = one_rope_table,
          .hidden_states = moe_hidden_states,
          .layer = moe_layer,
          .predicts_apart = true,
          .cache_specs = delta_layer_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
