// Granite 3 and 4.1, dense (IBM, "Granite 3.0 Language Models", 2024): Llama with four factors of maximal update
// parametrisation, on the embedding, the scores of attention, each branch and the logits.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture granite_architecture();

}  // namespace tern::models
