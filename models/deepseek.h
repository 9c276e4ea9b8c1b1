// DeepSeek-V2 and V3 (and R1, Kimi K2, Moonlight, which have V3's form): multi-head latent attention, and experts whose
// choice is limited to some groups.
#pragma once

#include "models/deepseek_fields.h"
#include "models/experts.h"
#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture deepseek_v2_architecture();
[[nodiscard]] Architecture deepseek_v3_architecture();

// What its relatives share with it.
// Tables of queries that grow with their position, and of their plain features; read where rope_query_growth is not 0.
inline constexpr const char* kQueryRope = "queries";
inline constexpr const char* kPlainQueryRope = "plain queries";
[[nodiscard]] std::vector<ParameterSpec> deepseek_parameters(const ModelConfig& config,
                                                             const ExpertParameters& experts);
// What the layer takes by reference outlives it.
[[nodiscard]] nn::DecoderLayer deepseek_layer(nn::Context& context, const ModelConfig& config,
                                              const nn::TokenInputs& inputs, const nn::MoeConfig& moe);
// Of V3 and V3.2.
[[nodiscard]] nn::DecoderLayer deepseek_v3_layer(nn::Context& context, const ModelConfig& config,
                                                 const nn::TokenInputs& inputs);
[[nodiscard]] nn::Value deepseek_hidden_states(nn::Context& context, const ModelConfig& config,
                                               const nn::TokenInputs& inputs, const nn::MoeConfig& moe);
// With all but fields, parameters and hidden states.
[[nodiscard]] Architecture deepseek_architecture(std::string name, std::string model_type);

}  // namespace tern::models
