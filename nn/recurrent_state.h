// The state that a layer keeps of each sequence, as the ops that carry it take it.
#pragma once

#include <string>

#include "nn/cache_spec.h"
#include "nn/context.h"
#include "ops/recurrent_shared.h"

namespace tern::nn {

// With a paged cache, the tensor `state` of the layer `module` at this run's seats; without one, none.
[[nodiscard]] inline ops::RecurrentState recurrent_state(Context& context, const std::string& module,
                                                         const TokenInputs& inputs, const StateSpec& state) {
  if (!inputs.paged()) return {};
  return {inputs.kv_lens, inputs.seats,
          context.state(state_name(inputs.cache_scope, module, state.name), state_desc(inputs.num_seats, state.shape))};
}

}  // namespace tern::nn
