#include "models/mixtral.h"

#include "models/experts.h"

namespace tern::models {
namespace {

std::vector<Field> fields() {
  const FieldValue size = std::int64_t{0};
  return with_fields(
      decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{8}), as_many_as_heads),
                      .head_dim = otherwise(hidden_over_heads),
                      .max_position_embeddings = 131072,
                      .bos_token_id = std::int64_t{1},
                      .eos_token_ids = std::vector<std::int64_t>{2}}),
      {{"rms_norm_eps", "attention.layer_norm_rms_epsilon", &ModelConfig::rms_norm_eps, required_in_gguf(1e-5),
        is_epsilon},
       {"rope_theta", "rope.freq_base", &ModelConfig::rope_theta,
        Default{FieldValue(1000000.0), FieldValue(1000000.0), FieldValue(10000.0), false}, is_positive},
       {"sliding_window", "attention.sliding_window", &ModelConfig::sliding_window,
        otherwise(FieldValue(std::int64_t{0}), FieldValue(std::int64_t{0})), is_count},
       {"num_local_experts", "expert_count", size, required_in_gguf(std::int64_t{8}), is_experts, {}, "num_experts"},
       {"num_experts_per_tok", "expert_used_count", size, required_in_gguf(std::int64_t{2}), is_top_k}});
}

std::vector<bool> every_layer(const ModelConfig& config) {
  return std::vector<bool>(static_cast<std::size_t>(config.num_hidden_layers), true);
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.gguf_interleaved = true,
                                     .sparse_layers = every_layer(config),
                                     .experts = {.experts = config.own_field<std::int64_t>("num_local_experts"),
                                                 .inner = config.intermediate_size,
                                                 .block = "block_sparse_moe",
                                                 .gate = "w1",
                                                 .up = "w3",
                                                 .down = "w2"}});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .window = config.sliding_window};
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>("num_local_experts"),
                          .top_k = config.own_field<std::int64_t>("num_experts_per_tok"),
                          .normalise = true,
                          .balanced = true};
  return expert_hidden_states(context, config, inputs, attention, moe, every_layer(config));
}

}  // namespace

Architecture mixtral_architecture() {
  return {.name = "MixtralForCausalLM",
          .model_type = "mixtral",
          .gguf = "llama",  // llama.cpp has no other name for it
          .fields = fields(),
          .gguf_rope_factors = true,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = tied_or_own_head};
}

}  // namespace tern::models
