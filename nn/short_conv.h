// Gated short convolutions in place of attention, as LFM2 has them (Liquid AI, "LFM2 Technical Report", 2025).
#pragma once

#include <string>

#include "nn/cache_spec.h"
#include "nn/context.h"

namespace tern::nn {

// out_proj(C * conv(B * x)), where in_proj gives B, C and x, and the causal convolution of each channel sees `kernel`
// rows: [tokens, hidden] -> [tokens, hidden]. Under `module`: the linear layers in_proj [3 hidden, hidden] and out_proj
// [hidden, hidden], and conv.weight [hidden, kernel]; each with a bias where the model has one. With a paged cache the
// layer goes on from the state that `short_conv_cache` describes, and leaves it for the next step.
Value short_conv(Context& context, const std::string& module, std::int64_t kernel, const TokenInputs& inputs, Value x);

[[nodiscard]] CacheSpec short_conv_cache(const std::string& module, std::int64_t kernel, std::int64_t hidden);

}  // namespace tern::nn
