// What LFM2 and its sibling with experts share: layers of short convolutions or attention, each before a mlp.
#pragma once

#include <functional>

#include "models/registry.h"

namespace tern::models {

// All fields but those of the mlp's width and of which layers attend, which are among `own`.
[[nodiscard]] std::vector<Field> lfm2_fields(std::vector<Field> own);
[[nodiscard]] Field lfm2_types(Default otherwise);

// What stands after each layer's convolution or attention.
struct Lfm2FeedForward {
  std::function<void(ParameterList& list, std::int64_t layer, const std::string& module, const std::string& gguf)> add;
  std::function<nn::Value(nn::Context& context, std::int64_t layer, const std::string& module, nn::Value x)> of;
};
[[nodiscard]] Lfm2FeedForward lfm2_mlp(const ModelConfig& config);

[[nodiscard]] std::vector<ParameterSpec> lfm2_parameters(const ModelConfig& config,
                                                         const Lfm2FeedForward& feed_forward);
[[nodiscard]] nn::Value lfm2_hidden_states(nn::Context& context, const ModelConfig& config,
                                           const nn::TokenInputs& inputs, const Lfm2FeedForward& feed_forward);
// With all but fields, parameters and hidden states.
[[nodiscard]] Architecture lfm2_layers_architecture(std::string name, std::string model_type, std::string gguf);

}  // namespace tern::models
