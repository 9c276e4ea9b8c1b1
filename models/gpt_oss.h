// gpt-oss (OpenAI, 2025): experts in each layer, MXFP4 weights, attention sinks, every other layer with a window.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture gpt_oss_architecture();

}  // namespace tern::models
