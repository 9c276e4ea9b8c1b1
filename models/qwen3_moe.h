// Qwen3 with mixtures of experts (Yang et al., "Qwen3 Technical Report", 2025): Qwen3's attention, and in most layers
// as many small experts as there is room for.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture qwen3_moe_architecture();

}  // namespace tern::models
