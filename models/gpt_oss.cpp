#include "models/gpt_oss.h"

#include "base/strings.h"
#include "models/experts.h"
#include "models/layer_windows.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/moe.h"

namespace tern::models {
namespace {

constexpr const char* kExperts = "num_local_experts";
constexpr const char* kTopK = "num_experts_per_tok";
constexpr const char* kAlpha = "swiglu_alpha";
constexpr const char* kLimit = "swiglu_limit";
constexpr double kQuickGelu = 1.702;  // the slope of its sigmoid

FieldValue every_other(const ModelConfig& config) { return periodic_layer_types(config, 2); }

std::string is_quick_gelu(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<double>(value) == kQuickGelu ? "" : cat(kQuickGelu);
}

std::vector<Field> fields() {
  using C = ModelConfig;
  using Says = GgufTensorSays::What;
  const FieldValue size = std::int64_t{0};
  Field top_k = {kTopK, "expert_used_count", size, required_in_gguf(std::int64_t{4}), is_top_k};
  top_k.also = "experts_per_token";
  return with_fields(
      decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{8}), as_many_as_heads),
                      .head_dim = otherwise(FieldValue(std::int64_t{64}), hidden_over_heads),
                      .max_position_embeddings = 131072,
                      .bos_token_id = std::int64_t{-1},
                      .eos_token_ids = std::vector<std::int64_t>{}}),
      {{"rms_norm_eps", "attention.layer_norm_rms_epsilon", &C::rms_norm_eps, required_in_gguf(1e-5), is_epsilon},
       {"intermediate_size", "expert_feed_forward_length", &C::intermediate_size, required(), is_size},
       {"rope_theta", "rope.freq_base", &C::rope_theta, required_in_gguf(150000.0), is_positive},
       {"attention_bias",
        "",
        &C::attention_bias,
        otherwise(FieldValue(true)),
        nullptr,
        {Says::present, "blk.0.attn_q.bias"}},
       {"sliding_window", "attention.sliding_window", &C::sliding_window, required_in_gguf(std::int64_t{128}), is_size},
       layer_types_field(otherwise(every_other)),
       {kExperts, "expert_count", size, required_in_gguf(std::int64_t{32}), is_experts, {}, "num_experts"},
       std::move(top_k),
       {kAlpha, "", FieldValue(kQuickGelu), otherwise(FieldValue(kQuickGelu)), is_quick_gelu},
       {kLimit, "", FieldValue(7.0), otherwise(FieldValue(7.0)), is_positive},
       // Of the model's making: rope_scaling says it to who computes.
       {"initial_context_length", kImplied, size, otherwise(size), is_count}});
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return decoder_parameters(
      config, {.qkv_bias = config.attention_bias,
               .output_bias = config.attention_bias,
               .sinks = true,
               .gguf_mlp_norm = "post_attention_norm",
               .sparse_layers = std::vector<bool>(static_cast<std::size_t>(config.num_hidden_layers), true),
               .experts = {.experts = config.own_field<std::int64_t>(kExperts),
                           .inner = config.intermediate_size,
                           .bias = true,
                           .router = "router",
                           .fused = {.gate_up = ".experts.gate_up_proj",
                                     .down = ".experts.down_proj",
                                     .router = ".router.weight",
                                     .is_interleaved = true,
                                     .is_transposed = true}}});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                .kv_heads = config.num_key_value_heads,
                                .head_dim = config.head_dim,
                                .has_sinks = true};
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>(kExperts),
                          .top_k = config.own_field<std::int64_t>(kTopK),
                          .normalise = true,
                          .act = TERN_ACT_QUICK_GELU,
                          .limit = static_cast<float>(config.own_field<double>(kLimit)),
                          .up_offset = 1.0F,
                          .router = "router",
                          .balanced = true};
  const std::vector<std::int64_t> windows = windows_by_type(config);
  const double eps = config.rms_norm_eps;
  const auto layer = [&](std::int64_t index, const std::string& module, nn::Residual& x) {
    attention.window = windows[static_cast<std::size_t>(index)];
    x.add(nn::attention(context, module + ".self_attn", attention, inputs,
                        nn::norm(context, module + ".input_layernorm", eps, x)));
    x.add(nn::moe(context, module + ".mlp", moe, nn::norm(context, module + ".post_attention_layernorm", eps, x)));
  };
  return nn::decoder(context, {.layers = config.num_hidden_layers, .eps = eps}, inputs, layer);
}

std::vector<nn::CacheSpec> cache_specs(const ModelConfig& config) {
  return attention_caches(config, windows_by_type(config));
}

}  // namespace

Architecture gpt_oss_architecture() {
  return {.name = "GptOssForCausalLM",
          .model_type = "gpt_oss",
          .gguf = "gpt-oss",
          .fields = fields(),
          .gguf_rope_factors = false,
          .gguf_yarn_truncates = false,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = tied_or_own_head};
}

}  // namespace tern::models
