// SmolLM3 (Bakouch et al., "SmolLM3: smol, multilingual, long-context reasoner", 2025): Llama with layers that no
// position turns, every fourth one unless the configuration says which.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture smollm3_architecture();

}  // namespace tern::models
