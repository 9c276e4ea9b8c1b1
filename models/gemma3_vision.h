// The vision tower of Gemma 3 (Gemma Team, "Gemma 3 Technical Report", 2025): SigLIP (Zhai et al., 2023) over images of
// one size, whose patches are averaged in blocks and projected. Tokens of one image see each other both ways.
#pragma once

#include "models/vision.h"

namespace tern::models {

[[nodiscard]] VisionTower gemma3_vision();

}  // namespace tern::models
