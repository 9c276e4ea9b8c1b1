// The vision tower of InternVL 3 (Zhu et al., "InternVL3", 2025): InternViT over tiles of one size, each with a token
// of its class; blocks of patches are put side by side and projected.
#pragma once

#include "models/vision.h"

namespace tern::models {

[[nodiscard]] VisionTower internvl_vision();

}  // namespace tern::models
