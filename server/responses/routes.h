// OpenAI's Responses: /v1/responses, and what was stored of them.
#pragma once

#include "server/chat_service.h"
#include "server/responses/response_store.h"
#include "server/router.h"

namespace tern::server::responses {

// `service` outlives the router; the store lives as long as the routes and the answers that are on their way.
void add_routes(Router& router, ChatService& service, const std::shared_ptr<ResponseStore>& store);

// Answers GET, DELETE and POST below /v1/responses/: `rest` is ID, ID/input_items or ID/cancel.
void answer_stored(ResponseStore& store, const HttpRequest& request, const std::string& rest, HttpExchange& exchange);

}  // namespace tern::server::responses
