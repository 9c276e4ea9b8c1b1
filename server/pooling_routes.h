// What vLLM's server makes of whole texts: /rerank, /score, /classify, /pooling.
#pragma once

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server {

// /rerank /v1/rerank /v2/rerank (Jina's and Cohere's), /score /v1/score, /classify, /pooling. `service` outlives the
// router.
void add_pooling_routes(Router& router, ChatService& service);

}  // namespace tern::server
