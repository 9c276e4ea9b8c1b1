// Gemma 2 (Gemma Team, "Gemma 2: Improving Open Language Models at a Practical Size", 2024): norms before and after
// each branch, soft caps of attention's scores and of the logits, and a window in every other layer.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture gemma2_architecture();

}  // namespace tern::models
