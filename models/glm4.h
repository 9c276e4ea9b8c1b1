// GLM-4-0414 (Team GLM, "ChatGLM: A Family of Large Language Models from GLM-130B to GLM-4", 2024): positions turn half
// of each head, in neighbouring pairs, and both branches are normed once more before they join the stream.
#pragma once

#include "models/registry.h"

namespace tern::models {

[[nodiscard]] Architecture glm4_architecture();

}  // namespace tern::models
