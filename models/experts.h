// What models with mixtures of experts share: fields, and which layers have them.
#pragma once

#include <vector>

#include "models/config_fields.h"
#include "models/parameters.h"

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

// For each layer whether it has experts: every decoder_sparse_step-th, but those of mlp_only_layers.
[[nodiscard]] std::vector<bool> sparse_layers(const ModelConfig& config);

std::string is_experts(const ModelConfig& config, const FieldValue& value);  // as many as a list of them can hold
std::string is_top_k(const ModelConfig& config, const FieldValue& value);    // at most num_experts

}  // namespace tern::models
