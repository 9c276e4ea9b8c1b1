// Phi-3 and Phi-4 (Abdin et al., "Phi-3 Technical Report" and "Phi-4 Technical Report", 2024): Llama with queries, keys
// and values in one linear layer, and the mlp's gate and up projections in another.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture phi3_architecture();

}  // namespace tern::models
