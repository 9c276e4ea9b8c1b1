// What ops that carry a state through each sequence share: causal_conv1d, gated_delta_rule and selective_scan.
//
// A call without a state begins each sequence from zeros and forgets it: training. With one, sequence s goes on from
// state[seats[s]], which is read and written in place, unless kv_lens[s] says that this step's rows are its first: then
// it begins from zeros, whatever its seat holds. Seat 0 is nobody's: sequences of padding sit there, any number of
// them, and what it holds afterwards is unspecified, but finite where it and the inputs were. No two others share a
// seat. A sequence without rows in this step leaves its state as it is.
#pragma once

#include "ops/build.h"
#include "ops/check.h"

namespace tern::ops {

struct RecurrentState {
  Value kv_lens;  // [sequences] i32
  Value seats;    // [sequences] i32
  Value state;    // [num_seats, ...]
};

struct RecurrentArgs {
  int rows;  // an argument whose first dimension is cut into sequences
  int cu_seqlens;
  int kv_lens;
  int seats;
  int state;
};

// kv_lens, seats and state come together or not at all.
[[nodiscard]] std::string check_state(Args args, const RecurrentArgs& at);
[[nodiscard]] Indices recurrent_indices(const CallDesc& call, const RecurrentArgs& at, std::int32_t max_seqlen);
// Bytes of an argument: of the state, the seats that are taken, read and written.
[[nodiscard]] double recurrent_bytes(const CallDesc& call, int arg, const RecurrentArgs& at);
void add_state(CallBuilder& builder, const Emitter& emitter, const RecurrentState& state, const RecurrentArgs& at);

}  // namespace tern::ops
