// What models with mixtures of experts share: fields, and which layers have them.
#pragma once

#include <vector>

#include "models/config_fields.h"
#include "models/parameters.h"
#include "nn/attention.h"
#include "nn/decoder.h"
#include "nn/moe.h"

namespace tern::models {

// Of Qwen's models and their relatives: num_experts, num_experts_per_tok, moe_intermediate_size, norm_topk_prob, and
// decoder_sparse_step with mlp_only_layers, which say what `sparse_layers` gives. A GGUF can say neither weights that
// aren't normalised (unless `gguf_normalises` is false: then it can say no others) nor layers without experts.
struct ExpertDefaults {
  std::int64_t num_experts;
  std::int64_t num_experts_per_tok;
  std::int64_t moe_intermediate_size;
  bool gguf_normalises;
};
[[nodiscard]] std::vector<Field> expert_fields(const ExpertDefaults& defaults);

// Of DeepSeek-V3 and its relatives, whose experts the sigmoid of each chooses, and a bias that balances them:
// n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_shared_experts, norm_topk_prob,
// routed_scaling_factor, n_group with topk_group, first_k_dense_replace and num_nextn_predict_layers.
struct RoutedExpertDefaults {
  std::int64_t n_routed_experts;
  std::int64_t num_experts_per_tok;
  std::int64_t moe_intermediate_size;
  std::int64_t first_k_dense_replace;
  std::int64_t n_group = 1;
  std::int64_t topk_group = 1;
  double routed_scaling_factor = 1.0;
};
// What a GGUF says of experts that are chosen by the sigmoid of each.
[[nodiscard]] Field sigmoid_gating_field();
[[nodiscard]] std::vector<Field> routed_expert_fields(const RoutedExpertDefaults& defaults);
[[nodiscard]] ExpertParameters routed_expert_parameters(const ModelConfig& config);
[[nodiscard]] nn::MoeConfig routed_experts(const ModelConfig& config);
// For each layer whether it has experts: all but the first first_k_dense_replace.
[[nodiscard]] std::vector<bool> routed_layers(const ModelConfig& config);

// For each layer whether it has experts: every decoder_sparse_step-th, but those of mlp_only_layers.
[[nodiscard]] std::vector<bool> sparse_layers(const ModelConfig& config);

// A layer of Llama's decoder with experts in place of the mlp in the layers that `sparse` says. What it takes by
// reference outlives the layer.
[[nodiscard]] nn::DecoderLayer expert_layer(nn::Context& context, const ModelConfig& config,
                                            const nn::TokenInputs& inputs, const nn::AttentionConfig& attention,
                                            const nn::MoeConfig& moe, std::vector<bool> sparse);
// The decoder of such layers.
[[nodiscard]] nn::Value expert_hidden_states(nn::Context& context, const ModelConfig& config,
                                             const nn::TokenInputs& inputs, const nn::AttentionConfig& attention,
                                             const nn::MoeConfig& moe, const std::vector<bool>& sparse);

std::string are_layers(const ModelConfig& config, const FieldValue& value);  // numbers of layers
std::string is_experts(const ModelConfig& config, const FieldValue& value);  // as many as a list of them can hold
std::string is_top_k(const ModelConfig& config, const FieldValue& value);    // at most so many

}  // namespace tern::models
