// What layers share that carry a state through each sequence: the state as ops take it, and the parts around those ops.
#pragma once

#include <string>

#include "nn/cache_spec.h"
#include "nn/context.h"
#include "ops/recurrent_shared.h"

namespace tern::nn {

// With a paged cache, the tensor `state` of the layer `module` at this run's seats; without one, none.
[[nodiscard]] inline ops::RecurrentState recurrent_state(Context& context, const std::string& module,
                                                         const TokenInputs& inputs, const StateSpec& state) {
  if (!inputs.seats.present()) return {};
  return {inputs.kv_lens, inputs.seats,
          context.state(state_name(inputs.cache_scope, module, state.name), state_desc(inputs.num_seats, state.shape))};
}

// A guess that was wrong has advanced a state, which keeps nothing of what it was: it's put back, and advanced again by
// what the right ones gave. A layer that can do so leaves here the rows that tokens are drawn behind, x [tokens,
// width], where the run says so,
void leave_for_replay(Context& context, const std::string& module, const ReplaySpec& spec, const TokenInputs& inputs,
                      Value x);
// and takes them from there, [tokens of the replay, width].
Value left_for_replay(Context& context, const std::string& module, const ReplaySpec& spec, const TokenInputs& inputs);

// silu of x [tokens, channels] after the causal convolution of each channel: "<module>.conv1d.weight" [channels,
// kernel] and, where the model has one, its bias. `state` holds the kernel - 1 rows before.
Value convolved(Context& context, const std::string& module, const TokenInputs& inputs, const StateSpec& state,
                Value x);

// softplus(x + "<module>.dt_bias" [heads]): [tokens, heads] -> the same in f32.
Value time_step(Context& context, const std::string& module, Value x);
// - exp("<module>.A_log"): [heads] f32.
Value decay_rate(Context& context, const std::string& module);

}  // namespace tern::nn
