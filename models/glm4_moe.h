// GLM-4.5 and 4.6 (GLM-4.5 Team, "GLM-4.5: Agentic, Reasoning, and Coding Foundation Models", 2025): the first layers
// are dense, the others have experts that the sigmoid of each chooses, and one that every token goes to.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture glm4_moe_architecture();

}  // namespace tern::models
