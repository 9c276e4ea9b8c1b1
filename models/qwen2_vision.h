// The vision tower of Qwen2-VL (Wang et al., "Qwen2-VL", 2024): positions of two dimensions, every patch sees every
// other.
#pragma once

#include "models/vision.h"

namespace tern::models {

[[nodiscard]] VisionTower qwen2_vision();

}  // namespace tern::models
