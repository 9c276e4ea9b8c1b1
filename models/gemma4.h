// The language models of Gemma 4 (Gemma Team, 2026): Gemma 3 whose global layers have heads of another size, of which
// positions turn a share; normed values; and, in the small ones, embeddings of each layer and last layers that read the
// keys and values of earlier ones.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture gemma4_architecture();

}  // namespace tern::models
