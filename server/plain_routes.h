// Routes that are no protocol of their own: health, metrics, tokens.
#pragma once

#include <string>

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server {

// /health /ping /version /load /metrics /tokenize /detokenize. `service` outlives the router.
void add_plain_routes(Router& router, ChatService& service, const std::string& version);

}  // namespace tern::server
