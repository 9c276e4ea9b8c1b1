// Qwen3, dense (Yang et al., "Qwen3 Technical Report", 2025): queries and keys are normed over each head before they
// are turned, and heads have a size of their own.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture qwen3_architecture();

}  // namespace tern::models
