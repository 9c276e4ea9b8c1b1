// The vision tower of Qwen2.5-VL (Bai et al., "Qwen2.5-VL Technical Report", 2025): windows in most layers, positions
// of two dimensions, blocks of patches merged into one feature.
#pragma once

#include "models/vision.h"

namespace tern::models {

[[nodiscard]] VisionTower qwen2_5_vision();

}  // namespace tern::models
