// Inputs of each layer's own, made of the tokens before the first one (Gemma Team, "Gemma 3n", 2025).
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

struct PerLayerInputs {
  std::int64_t layers = 0;
  std::int64_t size = 0;  // features of each layer's input
  double eps = 1e-6;
};

// Half of each is a projection of the token's embedding, normed, and half an embedding of its own: [tokens, layers *
// size]. `embedded` [tokens, hidden] is the stream's beginning; ids [tokens]. Under `module`:
// "embed_tokens_per_layer.weight" [vocab, layers * size], "per_layer_model_projection.weight" [layers * size, hidden]
// and "per_layer_projection_norm.weight" [size].
Value per_layer_inputs(Context& context, const std::string& module, const PerLayerInputs& config, Value ids,
                       Value embedded);

// The branch of a layer that its input opens: norm(W_up(gelu(W_gate x) * input)), [tokens, hidden]. `inputs` are all
// layers'. Under `module`, the layer's: "per_layer_input_gate", "per_layer_projection" and "post_per_layer_input_norm".
Value per_layer_branch(Context& context, const std::string& module, const PerLayerInputs& config, std::int64_t layer,
                       Value inputs, Value x);

}  // namespace tern::nn
