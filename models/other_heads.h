// Heads in an encoder's file that nothing here reads.
#pragma once

#include <span>
#include <string>

#include "models/registry.h"

namespace tern::models {

// "lm_head"; "" where there are none.
[[nodiscard]] std::string other_heads(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                                      std::span<const ParameterSpec> specs);

}  // namespace tern::models
