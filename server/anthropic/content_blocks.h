// Anthropic's messages, which consist of blocks, to a dialogue.
#pragma once

#include "engine/llm.h"
#include "server/json_body.h"

namespace tern::server::anthropic {

// `system` and `messages` of the body. A tool's result becomes a message of its own; turns of the same role that follow
// each other become one. Throws Failure (data).
[[nodiscard]] engine::Dialogue dialogue_fields(JsonBody& body);

}  // namespace tern::server::anthropic
