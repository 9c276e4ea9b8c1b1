// Anthropic's routes: /v1/messages, /v1/messages/count_tokens.
#pragma once

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server::anthropic {

// `service` outlives the router.
void add_routes(Router& router, ChatService& service);

}  // namespace tern::server::anthropic
