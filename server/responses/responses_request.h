// POST /v1/responses: OpenAI's request.
#pragma once

#include <string_view>

#include "server/chat_request.h"
#include "server/responses/response_store.h"

namespace tern::server::responses {

struct ResponsesRequest {
  ChatRequest chat;
  bool stream = false;
  bool store = true;
  bool logprobs = false;
  io::Json echoed;  // the members of the answer that repeat the request: "tools", "temperature", ...
  io::Json input;   // an array: all items that the model is asked, those of the response before too
};

// Throws Failure (data) for a body that is none, and for a previous_response_id that `store` doesn't have.
[[nodiscard]] ResponsesRequest parse_responses(std::string_view body, const ResponseStore& store);

}  // namespace tern::server::responses
