// Mixtral (Jiang et al., "Mixtral of Experts", 2024): Mistral with eight experts in each layer.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture mixtral_architecture();

}  // namespace tern::models
