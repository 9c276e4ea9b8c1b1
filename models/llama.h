// Llama 1 to 3 (Touvron et al., 2023; "The Llama 3 Herd of Models", 2024).
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture llama_architecture();

}  // namespace tern::models
