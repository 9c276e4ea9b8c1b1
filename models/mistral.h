// Mistral 7B (Jiang et al., 2023): a decoder whose layers all see a sliding window of keys.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture mistral_architecture();

}  // namespace tern::models
