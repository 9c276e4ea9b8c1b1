// Qwen2 and 2.5 (Yang et al., "Qwen2 Technical Report", 2024): Llama's decoder with biases on q, k and v, whose later
// layers may see a sliding window.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture qwen2_architecture();

}  // namespace tern::models
