// Cohere's models, whose attention and mlp read one layer norm side by side: Command R, whose layers see every key and
// turn by position, and Command R7B and A, of which all layers but each fourth see a window, and those alone turn.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture cohere_architecture();
[[nodiscard]] Architecture cohere2_architecture();

}  // namespace tern::models
