// Mistral 7B (Jiang et al., 2023): Llama's computation with a sliding window over the keys.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture mistral_architecture();

}  // namespace tern::models
