// What ms-swift's clients ask of `swift rollout` to generate.
#pragma once

#include <memory>

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server::rollout {

class WeightTransfer;

// /infer/. `service` outlives the router.
void add_swift_routes(Router& router, ChatService& service, const std::shared_ptr<WeightTransfer>& weights);

}  // namespace tern::server::rollout
