// What models share whose layers are gated delta networks (nn/gated_delta_net.h) but for every fourth or so.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/config_fields.h"
#include "models/parameters.h"
#include "nn/cache_spec.h"
#include "nn/context.h"
#include "nn/decoder.h"

namespace tern::models {

// linear_conv_kernel_dim, linear_{key,value}_head_dim, linear_num_{key,value}_heads, full_attention_interval and
// layer_types.
[[nodiscard]] std::vector<Field> delta_layer_fields();

// How the projections of a network are kept. In a GGUF those apart have heads of values tiled, those joined have not.
enum class Projections { apart, joined };

// decoder_parameters with a mixer of those layers: under "<layer>.linear_attn", what nn/gated_delta_net.h says. A GGUF
// has norms with their one added.
[[nodiscard]] std::vector<ParameterSpec> delta_layer_parameters(const ModelConfig& config, Projections projections,
                                                                DecoderParameters options);

// The feed-forward part of a layer, from its normed stream.
using FeedForward = std::function<nn::Value(std::int64_t layer, const std::string& module, nn::Value x)>;
// A layer of it; those behind the configuration's own attend. What it takes by reference outlives it.
[[nodiscard]] nn::DecoderLayer delta_layer(nn::Context& context, const ModelConfig& config, Projections projections,
                                           const nn::TokenInputs& inputs, FeedForward feed_forward);
[[nodiscard]] nn::Value delta_hidden_states(nn::Context& context, const ModelConfig& config, Projections projections,
                                            const nn::TokenInputs& inputs, FeedForward feed_forward);

// Of layers that attend, keys and values; of the others, their states.
[[nodiscard]] std::vector<nn::CacheSpec> delta_layer_caches(const ModelConfig& config);

}  // namespace tern::models
