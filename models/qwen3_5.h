// Qwen3.5 (Qwen team, "Qwen3.5", 2026), the language model: three layers of four are gated delta networks, the fourth
// attends with a gate; dense, and with mixtures of experts.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture qwen3_5_architecture();
[[nodiscard]] Architecture qwen3_5_moe_architecture();

}  // namespace tern::models
