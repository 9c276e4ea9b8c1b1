// New weights for the model that is served, and the engine's pause: vLLM's routes for trainers, SGLang's update from
// disk, and what TRL's and ms-swift's clients send before a transfer that this server can't take.
#pragma once

#include <memory>

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server::rollout {

class WeightTransfer;

// `service` outlives the router.
void add_weight_routes(Router& router, ChatService& service, const std::shared_ptr<WeightTransfer>& weights);

}  // namespace tern::server::rollout
