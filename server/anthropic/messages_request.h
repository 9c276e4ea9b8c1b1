// POST /v1/messages: Anthropic's request.
#pragma once

#include <string_view>

#include "server/chat_request.h"

namespace tern::server::anthropic {

struct MessagesRequest {
  ChatRequest chat;
  bool stream = false;
};

// Throws Failure (data) for a body that is none: a field of another type, an unknown one. A dialogue that ends with the
// assistant is gone on with.
[[nodiscard]] MessagesRequest parse_messages(std::string_view body);
// The same of /v1/messages/count_tokens, which has no max_tokens and no sampling.
[[nodiscard]] ChatRequest parse_count_tokens(std::string_view body);

}  // namespace tern::server::anthropic
