// ModernBERT: an encoder whose positions turn, with layers that see a window to both sides between those that see all
// (Warner et al., "Smarter, Better, Faster, Longer", 2024).
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture modernbert_architecture();

}  // namespace tern::models
