// The routes of `tern rollout`, beside those of every server: what RL trainers' vLLM clients ask.
#pragma once

#include "models/config.h"
#include "server/http.h"
#include "server/server.h"

namespace tern::server::rollout {

// Lets bodies be as large as weights are: a GiB, or the model's largest tensor in fp32.
void take_weights(HttpOptions& options, const models::ModelConfig& config);

// Has the server answer these routes, and tell log-probabilities of what tokens were drawn from: trainers start their
// vLLM so (--logprobs-mode processed_logprobs).
void serve_trainers(ServerOptions& options);

}  // namespace tern::server::rollout
