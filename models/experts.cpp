#include "models/experts.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::models {
namespace {

using Layers = std::vector<std::int64_t>;

constexpr std::int64_t kMostExperts =
    1 << 20;  // of all layers: beyond it the list of their weights alone would fill memory

std::string are_layers(const ModelConfig& config, const FieldValue& value) {
  const auto& layers = std::get<Layers>(value);
  const bool fit = std::all_of(layers.begin(), layers.end(),
                               [&](std::int64_t layer) { return layer >= 0 && layer < config.num_hidden_layers; });
  return fit ? "" : cat("layers from 0 to ", config.num_hidden_layers - 1);
}

}  // namespace

std::string is_top_k(const ModelConfig& config, const FieldValue& value) {
  const auto top_k = std::get<std::int64_t>(value);
  const auto& of = config.own.contains("num_experts") ? "num_experts" : "num_local_experts";
  const auto experts = config.own_field<std::int64_t>(of);
  return top_k >= 1 && top_k <= experts ? "" : cat("1 to ", experts, ", as many experts as there are");
}

std::string is_experts(const ModelConfig& config, const FieldValue& value) {
  const auto experts = std::get<std::int64_t>(value);
  const std::int64_t most = kMostExperts / std::max<std::int64_t>(config.num_hidden_layers, 1);
  return experts >= 1 && experts <= most ? "" : cat("1 to ", most, " experts");
}

std::vector<Field> expert_fields(const ExpertDefaults& defaults) {
  const FieldValue size = std::int64_t{0};
  const FieldValue none = Layers();
  return {
      {"num_experts",
       "expert_count",
       size,
       required_in_gguf(defaults.num_experts),
       is_experts,
       {},
       "num_local_experts"},
      {"num_experts_per_tok", "expert_used_count", size, required_in_gguf(defaults.num_experts_per_tok), is_top_k},
      {"moe_intermediate_size", "expert_feed_forward_length", size, required_in_gguf(defaults.moe_intermediate_size),
       is_size},
      {"norm_topk_prob", "", FieldValue(false),
       Default{FieldValue(false), {}, FieldValue(defaults.gguf_normalises), false}},
      {"decoder_sparse_step", "", size, otherwise(FieldValue(std::int64_t{1})), is_size},
      {"mlp_only_layers", "", none, otherwise(none, none), are_layers},
  };
}

std::vector<bool> sparse_layers(const ModelConfig& config) {
  const auto step = config.own_field<std::int64_t>("decoder_sparse_step");
  std::vector<bool> sparse;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) sparse.push_back((layer + 1) % step == 0);
  for (const std::int64_t layer : config.own_field<Layers>("mlp_only_layers")) {
    sparse[static_cast<std::size_t>(layer)] = false;
  }
  return sparse;
}

}  // namespace tern::models
