// The vision tower of LLaVA 1.5 (Liu et al., 2023): CLIP's (Radford et al., 2021) up to one of its last layers, and an
// MLP.
#pragma once

#include "models/vision.h"

namespace tern::models {

[[nodiscard]] VisionTower llava_vision();

}  // namespace tern::models
