// LFM2 with experts in place of the mlp of all layers but the first.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture lfm2_moe_architecture();

}  // namespace tern::models
