// A short training that visits every op of a model's training: for whoever checks ops as they run.
#pragma once

#include <cstdint>
#include <vector>

#include "models/adapter.h"
#include "session/session.h"

namespace tern::train {

// Trains a new adapter over all linear layers for two steps (at the first its B is zero, and so the gradient of A) on
// `ids` cut into two samples of unequal length and weight, with dropout. The session's weights are loaded; at least
// four ids. Gives the adapter, for generating with it. Throws Failure as the device or a probe does.
models::LoadedAdapter rehearse(session::Session& session, const std::vector<std::int32_t>& ids);

}  // namespace tern::train
