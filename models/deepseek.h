// DeepSeek-V2 and V3 (and R1, Kimi K2, Moonlight, which have V3's form): multi-head latent attention, and experts whose
// choice is limited to some groups.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture deepseek_v2_architecture();
[[nodiscard]] Architecture deepseek_v3_architecture();

}  // namespace tern::models
