#include "models/qwen3_moe.h"

#include "models/experts.h"

namespace tern::models {
namespace {

std::vector<Field> fields() {
  std::vector<Field> own = {
      {"attention_bias",
       "",
       &ModelConfig::attention_bias,
       otherwise(FieldValue(false)),
       nullptr,
       {GgufTensorSays::What::present, "blk.0.attn_q.bias"}},
      {"use_sliding_window", "", FieldValue(false), otherwise(FieldValue(false))},
      {"sliding_window", kImplied, &ModelConfig::sliding_window,
       otherwise(FieldValue(std::int64_t{4096}), FieldValue(std::int64_t{0})), is_count},
      {"max_window_layers", kImplied, FieldValue(std::int64_t{0}), otherwise(FieldValue(std::int64_t{0})), is_count},
      {"use_qk_norm", kImplied, FieldValue(true), otherwise(FieldValue(true)), is_true},  // Qwen3-Coder says it
  };
  own = with_fields(
      std::move(own),
      expert_fields(
          {.num_experts = 128, .num_experts_per_tok = 8, .moe_intermediate_size = 768, .gguf_normalises = true}));
  return with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{4}), as_many_as_heads),
                                     .head_dim = otherwise(hidden_over_heads),
                                     .max_position_embeddings = 32768,
                                     .bos_token_id = std::int64_t{-1},
                                     .eos_token_ids = std::vector<std::int64_t>{}}),
                     std::move(own));
}

// The same in every layer: max_window_layers is left over from Qwen2.
std::vector<std::int64_t> windows(const ModelConfig& config) {
  const std::int64_t window = config.own_field<bool>("use_sliding_window") ? config.sliding_window : 0;
  return std::vector<std::int64_t>(static_cast<std::size_t>(config.num_hidden_layers), window);
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(config, {.qkv_bias = config.attention_bias,
                                     .output_bias = config.attention_bias,
                                     .qk_norm = nn::QkNorm::head,
                                     .sparse_layers = sparse_layers(config),
                                     .experts = {.experts = config.own_field<std::int64_t>("num_experts"),
                                                 .inner = config.own_field<std::int64_t>("moe_intermediate_size"),
                                                 // Within Qwen3-VL.
                                                 .fused = {.gate_up = ".experts.gate_up_proj",
                                                           .down = ".experts.down_proj",
                                                           .as_published = true,
                                                           .is_transposed = true}}});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                      .kv_heads = config.num_key_value_heads,
                                      .head_dim = config.head_dim,
                                      .window = windows(config).front(),
                                      .qk_norm = nn::QkNorm::head,
                                      .eps = config.rms_norm_eps};
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>("num_experts"),
                          .top_k = config.own_field<std::int64_t>("num_experts_per_tok"),
                          .normalise = config.own_field<bool>("norm_topk_prob"),
                          .balanced = true};
  return expert_hidden_states(context, config, inputs, attention, moe, sparse_layers(config));
}

std::vector<nn::CacheSpec> cache_specs(const ModelConfig& config) { return attention_caches(config, windows(config)); }

}  // namespace

Architecture qwen3_moe_architecture() {
  return {.name = "Qwen3MoeForCausalLM",
          .model_type = "qwen3_moe",
          .gguf = "qwen3moe",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = tied_or_own_head};
}

}  // namespace tern::models
