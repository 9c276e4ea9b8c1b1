#include "models/qwen2_moe.h"

#include "models/experts.h"
#include "models/layer_windows.h"

namespace tern::models {
namespace {

std::vector<Field> fields() {
  const FieldValue size = std::int64_t{0};
  std::vector<Field> own = expert_fields(
      {.num_experts = 60, .num_experts_per_tok = 4, .moe_intermediate_size = 1408, .gguf_normalises = false});
  own = with_fields(std::move(own), {{"shared_expert_intermediate_size", "expert_shared_feed_forward_length", size,
                                      required_in_gguf(std::int64_t{5632}), is_size},
                                     {"qkv_bias",
                                      "",
                                      &ModelConfig::attention_bias,
                                      otherwise(FieldValue(true)),
                                      nullptr,
                                      {GgufTensorSays::What::present, "blk.0.attn_q.bias"}},
                                     full_layer_types_field(),
                                     // Without windows these say nothing; use_sliding_window is served as false alone.
                                     {"sliding_window", kImplied, size, otherwise(size, size), is_count},
                                     {"max_window_layers", kImplied, size, otherwise(size), is_count}});
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{16}), as_many_as_heads),
                                     .head_dim = otherwise(hidden_over_heads),
                                     .max_position_embeddings = 32768,
                                     .bos_token_id = std::int64_t{-1},
                                     .eos_token_ids = std::vector<std::int64_t>{}}),
                     std::move(own));
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(
      config, {.qkv_bias = config.attention_bias,
               .sparse_layers = sparse_layers(config),
               .experts = {.experts = config.own_field<std::int64_t>("num_experts"),
                           .inner = config.own_field<std::int64_t>("moe_intermediate_size"),
                           .shared_inner = config.own_field<std::int64_t>("shared_expert_intermediate_size"),
                           .shared_gated = true}});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const nn::AttentionConfig attention{
      .heads = config.num_attention_heads, .kv_heads = config.num_key_value_heads, .head_dim = config.head_dim};
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>("num_experts"),
                          .top_k = config.own_field<std::int64_t>("num_experts_per_tok"),
                          .normalise = config.own_field<bool>("norm_topk_prob"),
                          .shared = "shared_expert",
                          .shared_gated = true,
                          .balanced = true};
  return expert_hidden_states(context, config, inputs, attention, moe, sparse_layers(config));
}

}  // namespace

Architecture qwen2_moe_architecture() {
  return {.name = "Qwen2MoeForCausalLM",
          .model_type = "qwen2_moe",
          .gguf = "qwen2moe",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
