// OpenAI's routes: /v1/chat/completions, /v1/completions, /v1/models, /v1/embeddings.
#pragma once

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server::openai {

// `service` outlives the router.
void add_routes(Router& router, ChatService& service);

}  // namespace tern::server::openai
