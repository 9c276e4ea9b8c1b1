// The items of OpenAI's Responses to a dialogue.
#pragma once

#include <string>

#include "engine/llm.h"
#include "io/json.h"

namespace tern::server::responses {

// `items`: messages, function calls, their outputs and reasoning, which `place` names in errors. What an assistant
// thought, said and called becomes one message. Throws Failure (data).
void append_items(engine::Dialogue& dialogue, const io::Json& items, const std::string& place);

}  // namespace tern::server::responses
