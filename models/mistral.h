// Mistral 7B (Jiang et al., 2023): a decoder whose layers all see a sliding window of keys.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture mistral_architecture();
// Ministral 3 (Mistral AI, 2026): YaRN, and queries that grow with their position.
[[nodiscard]] Architecture ministral3_architecture();

}  // namespace tern::models
