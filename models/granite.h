// Granite 3 and 4.1, dense (IBM, "Granite 3.0 Language Models", 2024): Llama with four factors of maximal update
// parametrisation, on the embedding, the scores of attention, each branch and the logits.
#pragma once

#include <functional>

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture granite_architecture();

// What Granite's other architectures share with it; `mlp` is the second branch of the layer of that name, and `mixer`
// the first, or absent where that one attends.
[[nodiscard]] std::vector<Field> granite_fields();
using GraniteMlp = std::function<nn::Value(const std::string& layer, nn::Value x)>;
struct GraniteAttention {
  bool turns = true;  // by rotary positions
  std::function<nn::Value(std::int64_t index, const std::string& layer, nn::Value x)> mixer = nullptr;
};
[[nodiscard]] nn::Value granite_hidden_states(nn::Context& context, const ModelConfig& config,
                                              const nn::TokenInputs& inputs, const GraniteMlp& mlp,
                                              const GraniteAttention& options = {});
[[nodiscard]] nn::Head granite_head(const ModelConfig& config);

}  // namespace tern::models
