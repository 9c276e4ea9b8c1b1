// What TRL's VLLMClient asks of `trl vllm-serve` to generate and to score.
#pragma once

#include <memory>

#include "server/chat_service.h"
#include "server/router.h"

namespace tern::server::rollout {

class WeightTransfer;

// /generate/ /chat/ /get_sequence_logprobs/. `service` outlives the router.
void add_trl_routes(Router& router, ChatService& service, const std::shared_ptr<WeightTransfer>& weights);

}  // namespace tern::server::rollout
