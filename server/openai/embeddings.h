// POST /v1/embeddings: a vector of each text.
#pragma once

#include "server/chat_service.h"
#include "server/http.h"

namespace tern::server::openai {

// Answers on the caller's thread, which waits for the engine. Throws Failure (data) for a body that is none.
void answer_embeddings(ChatService& service, const HttpRequest& request, HttpExchange& exchange);

}  // namespace tern::server::openai
