// Granite 4 (IBM, "Granite 4.0", 2025): Granite whose layers are Mamba-2 but for some that attend, most of them without
// rotary positions; an mlp in each layer that all tokens share, and beside it experts or none.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture granite_h_architecture();

}  // namespace tern::models
