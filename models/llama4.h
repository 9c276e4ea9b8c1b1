// Llama 4 (Meta, 2025): layers that positions turn and that see a chunk of the keys, and every fourth without positions
// that sees all, whose queries grow with theirs; experts that are weighted by what they read, and one that all share.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture llama4_architecture();

}  // namespace tern::models
