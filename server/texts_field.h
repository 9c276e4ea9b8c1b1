// Texts of a body that are to be pooled.
#pragma once

#include <string_view>
#include <vector>

#include "engine/llm.h"
#include "server/json_body.h"

namespace tern::server {

// A text, token ids, or a list of either. Throws Failure (data).
[[nodiscard]] std::vector<engine::Prompt> prompts_field(JsonBody& body, std::string_view key);

}  // namespace tern::server
