// Qwen3-Next (Qwen team, "Qwen3-Next", 2025): three layers of four are gated delta networks, whose projections are two;
// the fourth attends with a gate; mixtures of many small experts.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture qwen3_next_architecture();

}  // namespace tern::models
