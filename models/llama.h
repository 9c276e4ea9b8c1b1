// Llama 1 to 3 (Touvron et al., 2023; "The Llama 3 Herd of Models", 2024), and what is computed as they are.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture llama_architecture();

// Decoder of pre-normed attention and gated MLP blocks: [tokens] ids -> [tokens, hidden_size].
ops::Value llama_hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs);
[[nodiscard]] std::vector<ParameterSpec> llama_parameters(const ModelConfig& config);
[[nodiscard]] std::vector<nn::CacheSpec> llama_cache_specs(const ModelConfig& config);

}  // namespace tern::models
