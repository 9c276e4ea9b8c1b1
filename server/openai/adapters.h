// /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them.
#pragma once

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server::openai {

// `service` outlives the router.
void add_adapter_routes(Router& router, ChatService& service);

}  // namespace tern::server::openai
