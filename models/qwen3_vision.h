// The vision tower of Qwen3-VL (Qwen Team, 2025): learned positions spread over the grid beside those that turn, and
// features of several depths for the first layers of the language model. Qwen3.5's is the same without the latter.
#pragma once

#include "models/vision.h"

namespace tern::models {

[[nodiscard]] VisionTower qwen3_vision();
[[nodiscard]] VisionTower qwen3_moe_vision();
[[nodiscard]] VisionTower qwen3_5_vision();
[[nodiscard]] VisionTower qwen3_5_moe_vision();

}  // namespace tern::models
