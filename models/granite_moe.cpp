#include "models/granite_moe.h"

#include "models/experts.h"
#include "models/granite.h"
#include "nn/moe.h"

namespace tern::models {
namespace {

constexpr const char* kExperts = "num_local_experts";
constexpr const char* kTopK = "num_experts_per_tok";
constexpr const char* kBlock = "block_sparse_moe";
constexpr const char* kRouter = "router";

std::vector<Field> fields() {
  const FieldValue size = std::int64_t{0};
  return with_fields(granite_fields(),
                     {{kExperts, "expert_count", size, required_in_gguf(std::int64_t{8}), is_experts},
                      {kTopK, "expert_used_count", size, required_in_gguf(std::int64_t{2}), is_top_k}});
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  const std::vector<bool> all(static_cast<std::size_t>(config.num_hidden_layers), true);
  return decoder_parameters(
      config, {.qkv_bias = config.attention_bias,
               .output_bias = config.attention_bias,
               .gguf_interleaved = true,
               .sparse_layers = all,
               .experts = {.experts = config.own_field<std::int64_t>(kExperts),
                           .inner = config.intermediate_size,
                           .module = kBlock,
                           .router = kRouter,
                           .block = kBlock,
                           .fused = {".input_linear.weight", ".output_linear.weight", ".router.layer.weight"}}});
}

nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  const nn::MoeConfig moe{.experts = config.own_field<std::int64_t>(kExperts),
                          .top_k = config.own_field<std::int64_t>(kTopK),
                          .normalise = true,
                          .router = kRouter,
                          .balanced = true};
  return granite_hidden_states(context, config, inputs, [&](const std::string& layer, nn::Value x) {
    return nn::moe(context, layer + "." + kBlock, moe, x);
  });
}

}  // namespace

Architecture granite_moe_architecture() {
  return {.name = "GraniteMoeForCausalLM",
          .model_type = "granitemoe",
          .gguf = "granitemoe",
          .fields = fields(),
          .gguf_rope_factors = true,
          .parameters = parameters,
          .rope_tables = one_rope_table,
          .hidden_states = hidden_states,
          .cache_specs = even_caches,
          .head = granite_head};
}

}  // namespace tern::models
