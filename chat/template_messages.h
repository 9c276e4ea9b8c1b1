// Messages in the form that chat templates take.
#pragma once

#include <vector>

#include "base/status.h"
#include "chat/message.h"
#include "jinja/value.h"

namespace tern::chat {

// tool_call messages become `tool_calls` of the assistant's message (joined to the one before, as one turn),
// tool_response messages the role tool. An assistant's weight stands there as `loss`. Errors (data): a call that is no
// JSON of one, a weight above 0 at another role, two weights in one turn, a key given twice, values nested too deep.
[[nodiscard]] Result<jinja::Values> template_messages(const std::vector<Message>& messages);

}  // namespace tern::chat
