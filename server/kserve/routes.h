// KServe's open inference protocol over HTTP, with Triton's binary tensors and generate: /v2.
#pragma once

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server::kserve {

// `service` outlives the router.
void add_routes(Router& router, ChatService& service, const std::string& version);

}  // namespace tern::server::kserve
