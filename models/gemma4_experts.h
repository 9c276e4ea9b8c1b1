// Gemma 4's experts, which stand beside the mlp of each layer and have norms and a router of their own.
#pragma once

#include "models/config_fields.h"
#include "models/parameters.h"
#include "nn/context.h"

namespace tern::models {

[[nodiscard]] std::vector<Field> gemma4_expert_fields();
[[nodiscard]] bool has_gemma4_experts(const ModelConfig& config);
// A layer's.
void add_gemma4_experts(ParameterList& list, const ModelConfig& config, const std::string& module,
                        const std::string& gguf);
// What a layer's mlp gave, `fed`, and what its experts make of the stream, each normed: [tokens, hidden].
[[nodiscard]] nn::Value beside_gemma4_experts(nn::Context& context, const ModelConfig& config,
                                              const std::string& module, nn::Value stream, nn::Value fed);

}  // namespace tern::models
