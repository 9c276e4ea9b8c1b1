// OLMo 2 (Team OLMo, "2 OLMo 2 Furious", 2024): norms follow attention and the mlp instead of leading them, and queries
// and keys are normed over all heads together.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture olmo2_architecture();

// What OLMo 3 has too.
[[nodiscard]] std::vector<Field> olmo_fields(std::vector<Field> more);
[[nodiscard]] std::vector<ParameterSpec> olmo_parameters(const ModelConfig& config);
// Layers with a window, of `windows`, are turned by the table `window_rope`.
[[nodiscard]] ops::Value olmo_hidden_states(nn::Context& context, const ModelConfig& config,
                                            const nn::TokenInputs& inputs, const std::vector<std::int64_t>& windows,
                                            const char* window_rope);

}  // namespace tern::models
