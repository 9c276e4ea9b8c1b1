// POST /v1/embeddings: a vector of each text.
#pragma once

#include "server/chat_service.h"
#include "server/http.h"

namespace tern::server::openai {

// Answers once the engine has had its turn. Throws Failure (data) for a body that is none.
void answer_embeddings(ChatService& service, const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);

}  // namespace tern::server::openai
