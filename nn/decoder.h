// A stack of layers between embedding and final norm. What must never be forgotten happens here, not in a model's file:
// the keys of dropout, and the brackets by which a layer is computed again in the backward.
#pragma once

#include <functional>
#include <string>

#include "nn/context.h"
#include "nn/norm.h"

namespace tern::nn {

struct DecoderConfig {
  std::int64_t layers = 0;
  double eps = 1e-6;             // of the final norm
  float norm_offset = 0.0F;      // to its weight
  double embedding_scale = 1.0;  // of what the stream begins with
  std::string module = "model";  // holds embed_tokens, layers.<i>
  std::string norm = "norm";     // and this
  bool is_centred = false;       // the final norm is a layer norm
  bool scales_noise = true;      // embedding_scale multiplies the noise of NEFTune, too
};

// One layer: adds its branches to the stream x. `module` is its name, "model.layers.7".
using DecoderLayer = std::function<void(std::int64_t layer, const std::string& module, Residual& x)>;

// Asks a decoder that is built from here on for the stream that its layer `layer` reads, or what the last one gives
// where that is the number of layers: for heads that guess from more than the last hidden states (EAGLE-3).
void want_stream(Context& context, std::int64_t layer);
// That stream [tokens, hidden], once the decoder is there. Throws std::logic_error where it has no such layer.
Value wanted_stream(Context& context, std::int64_t layer);

// inputs.ids [tokens] -> hidden states after the final norm, [tokens, hidden].
Value decoder(Context& context, const DecoderConfig& config, const TokenInputs& inputs, const DecoderLayer& layer);

}  // namespace tern::nn
