#include "models/glm4_moe.h"

#include "models/experts.h"
#include "models/rope.h"

namespace tern::models {
namespace {

constexpr const char* kQkNorm = "use_qk_norm";

std::vector<Field> fields() {
  using C = ModelConfig;
  using Says = GgufTensorSays::What;
  std::vector<Field> own = {
      {"rms_norm_eps", "attention.layer_norm_rms_epsilon", &C::rms_norm_eps, required_in_gguf(1e-5), is_epsilon},
      {"attention_bias",
       "",
       &C::attention_bias,
       otherwise(FieldValue(false)),
       nullptr,
       {Says::present, "blk.0.attn_q.bias"}},
      {kQkNorm,
       "",
       FieldValue(false),
       otherwise(FieldValue(false)),
       nullptr,
       {Says::present, "blk.0.attn_q_norm.weight"}},
      partial_rotary_field(0.5)};
  own = with_fields(std::move(own), routed_expert_fields({.n_routed_experts = 128,
                                                          .num_experts_per_tok = 8,
                                                          .moe_intermediate_size = 1408,
                                                          .first_k_dense_replace = 1}));
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{8}), as_many_as_heads),
                                     .head_dim = otherwise(hidden_over_heads),
                                     .max_position_embeddings = 131072,
                                     .bos_token_id = std::int64_t{-1},
                                     .eos_token_ids = std::vector<std::int64_t>{}}),
                     std::move(own));
}

nn::QkNorm qk_norm(const ModelConfig& config) {
  return config.own_field<bool>(kQkNorm) ? nn::QkNorm::head : nn::QkNorm::none;
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.qkv_bias = config.attention_bias,
                                     .qk_norm = qk_norm(config),
                                     .gguf_mlp_norm = "post_attention_norm",
                                     .sparse_layers = routed_layers(config),
                                     .experts = routed_expert_parameters(config)});
}

nn::DecoderLayer layer(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .qk_norm = qk_norm(config),
                                      .eps = config.rms_norm_eps};
  return expert_layer(context, config, inputs, attention, routed_experts(config), routed_layers(config));
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = config.rms_norm_eps}, inputs,
                     layer(context, config, inputs));
}

}  // namespace

Architecture glm4_moe_architecture() {
  return {.name = "Glm4MoeForCausalLM",
          .model_type = "glm4_moe",
          .gguf = "glm4moe",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .layer = layer,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
