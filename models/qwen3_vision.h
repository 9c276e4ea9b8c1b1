// The vision tower of Qwen3-VL (Qwen Team, 2025): learned positions spread over the grid beside those that turn, and
// features of several depths for the first layers of the language model.
#pragma once

#include "models/vision.h"

namespace tern::models {

[[nodiscard]] VisionTower qwen3_vision();

}  // namespace tern::models
