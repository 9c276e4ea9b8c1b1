// OpenAI's messages and tools to a dialogue.
#pragma once

#include "engine/llm.h"
#include "server/json_body.h"

namespace tern::server::openai {

// `messages` of the body, and its `tools`. Images come by data: URLs. Throws Failure (data).
[[nodiscard]] engine::Dialogue dialogue_fields(JsonBody& body);

}  // namespace tern::server::openai
