// Falcon-H1 (TII, "Falcon-H1: A Family of Hybrid-Head Language Models", 2025): attention and Mamba-2 side by side in
// each layer, and factors of maximal update parametrisation on all that a layer reads and gives.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture falcon_h1_architecture();

}  // namespace tern::models
