// OLMo 3 (Team OLMo, "Olmo 3", 2025): OLMo 2 with a window in three layers of four, which no scaling of positions
// reaches.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture olmo3_architecture();

}  // namespace tern::models
