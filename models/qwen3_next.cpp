#include "models/qwen3_next.h"

#include "models/delta_layers.h"
#include "models/experts.h"
#include "models/rope.h"
#include "nn/mlp.h"

namespace tern::models {
namespace {

constexpr double kTurned = 0.25;  // of each head, where a configuration doesn't say it

std::vector<Field> fields() {
  const FieldValue size = std::int64_t{0};
  Field layers = {"num_hidden_layers", "block_count", &ModelConfig::num_hidden_layers, required(), is_layers};
  layers.gguf_less = "nextn_predict_layers";
  std::vector<Field> own = {
      std::move(layers),
      {"mtp_num_hidden_layers", kImplied, size, otherwise(FieldValue(std::int64_t{0})), is_count},
      {"attention_bias", "", &ModelConfig::attention_bias, otherwise(FieldValue(false))},
      {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", size,
       required_in_gguf(std::int64_t{512}), is_size},
      partial_rotary_field(kTurned),
  };
  own = with_fields(std::move(own), delta_layer_fields());
  own = with_fields(
      std::move(own),
      expert_fields(
          {.num_experts = 512, .num_experts_per_tok = 10, .moe_intermediate_size = 512, .gguf_normalises = true}));
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{2}), as_many_as_heads),
                                     .head_dim = otherwise(FieldValue(std::int64_t{256}), hidden_over_heads),
                                     .max_position_embeddings = 32768,
                                     .bos_token_id = std::int64_t{-1},
                                     .eos_token_ids = std::vector<std::int64_t>{}}),
                     std::move(own));
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return delta_layer_parameters(
      config, Projections::joined,
      {.qkv_bias = config.attention_bias,
       .output_bias = config.attention_bias,
       .sparse_layers = sparse_layers(config),
       .experts = {.experts = config.own_field<std::int64_t>("num_experts"),
                   .inner = config.own_field<std::int64_t>("moe_intermediate_size"),
                   .shared_inner = config.own_field<std::int64_t>("shared_expert_intermediate_size"),
                   .shared_gated = true}});
}

FeedForward feed_forward(nn::Context& context, const ModelConfig& config) {
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>("num_experts"),
                          .top_k = config.own_field<std::int64_t>("num_experts_per_tok"),
                          .normalise = config.own_field<bool>("norm_topk_prob"),
                          .shared = "shared_expert",
                          .shared_gated = true,
                          .balanced = true};
  return [&context, moe, sparse = sparse_layers(config)](std::int64_t layer, const std::string& module, nn::Value x) {
    const bool has_experts = sparse[static_cast<std::size_t>(layer)];
    return has_experts ? nn::moe(context, module, moe, x) : nn::gated_mlp(context, module, x);
  };
}

nn::DecoderLayer layer(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return delta_layer(context, config, Projections::joined, inputs, feed_forward(context, config));
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return delta_hidden_states(context, config, Projections::joined, inputs, feed_forward(context, config));
}

}  // namespace

Architecture qwen3_next_architecture() {
  return {.name = "Qwen3NextForCausalLM",
          .model_type = "qwen3_next",
          .gguf = "qwen3next",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .layer = layer,
          .predicts_apart = true,
          .cache_specs = delta_layer_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
