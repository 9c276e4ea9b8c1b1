// LFM2 (Liquid AI, "LFM2 Technical Report", 2025): short convolutions between gates, and attention in some layers.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture lfm2_architecture();

}  // namespace tern::models
