// Mistral Small 4 (Mistral AI, 2026): DeepSeek-V3's form with a softmax over experts, and queries that grow with their
// position.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture mistral4_architecture();

}  // namespace tern::models
