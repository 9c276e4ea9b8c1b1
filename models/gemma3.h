// The language model of Gemma 3 (Gemma Team, "Gemma 3 Technical Report", 2025): Gemma 2 with norms of queries and keys
// in place of the soft caps, and windows in all layers but every sixth, which turn by a base of their own.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture gemma3_architecture();

}  // namespace tern::models
