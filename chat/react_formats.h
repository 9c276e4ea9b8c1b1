// Formats whose calls and results are lines of the assistant's own text: ReAct's, and those of Qwen-Agent.
#pragma once

#include <vector>

#include "chat/agent_template.h"

namespace tern::chat {

[[nodiscard]] std::vector<AgentFormat> react_formats();

}  // namespace tern::chat
