// Ollama's routes: /api/chat /api/generate /api/tags /api/show /api/version /api/embed.
#pragma once

#include <string>

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server::ollama {

// `service` outlives the router.
void add_routes(Router& router, ChatService& service, const std::string& version);

}  // namespace tern::server::ollama
