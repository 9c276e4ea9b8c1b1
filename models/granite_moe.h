// Granite 3 with experts in each layer (IBM, "Granite 3.0 Language Models", 2024; Shen et al., "JetMoE", 2024).
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture granite_moe_architecture();

}  // namespace tern::models
