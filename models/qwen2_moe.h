// Qwen 1.5 and 2 with mixtures of experts ("Qwen2 Technical Report", 2024): a shared expert beside the chosen ones.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture qwen2_moe_architecture();

}  // namespace tern::models
