#include "models/lfm2_moe.h"

#include "models/experts.h"
#include "models/lfm2_layers.h"

namespace tern::models {
namespace {

constexpr const char* kBlock = "feed_forward";
constexpr const char* kDense = "num_dense_layers";
constexpr const char* kExperts = "num_experts";
constexpr const char* kTopK = "num_experts_per_tok";
constexpr const char* kInner = "moe_intermediate_size";
constexpr const char* kBias = "use_expert_bias";
constexpr const char* kNormalises = "norm_topk_prob";
constexpr const char* kScale = "routed_scaling_factor";

// llama.cpp reads a bias of each layer's choice, lets weights add up to 1, and knows no scale of them.
std::vector<Field> fields() {
  const auto count = [](std::int64_t value) { return FieldValue(value); };
  const FieldValue yes = true;
  return lfm2_fields({
      {"intermediate_size", "feed_forward_length", &ModelConfig::intermediate_size, required_in_gguf(count(7168)),
       is_size},
      lfm2_types(required()),
      {kDense, "leading_dense_block_count", count(0), Default{count(2), {}, count(0), false}, is_count},
      {kExperts, "expert_count", count(0), required_in_gguf(count(32)), is_experts, {}, "num_local_experts"},
      {kTopK, "expert_used_count", count(0), required_in_gguf(count(4)), is_top_k},
      {kInner, "expert_feed_forward_length", count(0), required_in_gguf(count(1792)), is_size},
      {kBias, "", FieldValue(false), otherwise(yes)},
      {kNormalises, "", FieldValue(false), otherwise(yes)},
      {kScale, "", FieldValue(1.0), otherwise(FieldValue(1.0)), is_positive},
      sigmoid_gating_field(),
  });
}

Lfm2FeedForward feed_forward(const ModelConfig& config) {
  const ExpertParameters experts{.experts = config.own_field<std::int64_t>(kExperts),
                                 .inner = config.own_field<std::int64_t>(kInner),
                                 .correction_bias = config.own_field<bool>(kBias),
                                 .bias_tensor = ".expert_bias",
                                 .module = kBlock,
                                 .block = kBlock,
                                 .gate = "w1",
                                 .up = "w3",
                                 .down = "w2"};
  const nn::MoeConfig moe{.experts = experts.experts,
                          .top_k = config.own_field<std::int64_t>(kTopK),
                          .sigmoid = true,
                          .normalise = config.own_field<bool>(kNormalises),
                          .scale = static_cast<float>(config.own_field<double>(kScale))};
  const auto dense = config.own_field<std::int64_t>(kDense);
  const std::int64_t hidden = config.hidden_size;
  const Lfm2FeedForward mlp = lfm2_mlp(config);
  return {[=](ParameterList& list, std::int64_t layer, const std::string& module, const std::string& gguf) {
            if (layer < dense) return mlp.add(list, layer, module, gguf);
            const std::string block = module + "." + kBlock;
            list.experts(block, block, gguf, hidden, experts);
          },
          [=](nn::Context& context, std::int64_t layer, const std::string& module, nn::Value x) {
            if (layer < dense) return mlp.of(context, layer, module, x);
            return nn::moe(context, module + "." + kBlock, moe, x);
          }};
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  return lfm2_parameters(config, feed_forward(config));
}
nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return lfm2_hidden_states(context, config, inputs, feed_forward(config));
}

}  // namespace

Architecture lfm2_moe_architecture() {
  Architecture made = lfm2_layers_architecture("Lfm2MoeForCausalLM", "lfm2_moe", "lfm2moe");
  made.fields = fields();
  made.parameters = parameters;
  made.hidden_states = hidden_states;
  return made;
}

}  // namespace tern::models
