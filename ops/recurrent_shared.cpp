#include "ops/recurrent_shared.h"

#include <limits>

namespace tern::ops {
namespace {

const TensorDesc& desc_at(Args args, int arg) { return args[static_cast<std::size_t>(arg)]; }

}  // namespace

std::string check_state(Args args, const RecurrentArgs& at) {
  const bool has = is_present(desc_at(args, at.state));
  return first_problem(
      require(is_present(desc_at(args, at.kv_lens)) == has, "kv_lens: expected them iff there is a state"),
      require(is_present(desc_at(args, at.seats)) == has, "seats: expected them iff there is a state"),
      require(!has || desc_at(args, at.state).shape[0] >= 1, "state: expected seat 0 at least"));
}

Indices recurrent_indices(const CallDesc& call, const RecurrentArgs& at, std::int32_t max_seqlen) {
  Indices out;
  out.sequences = {{at.cu_seqlens, at.rows, max_seqlen}};
  if (!call.has(at.state)) return out;
  out.ranges = {{at.seats, 0, call[at.state].shape[0] - 1},
                {at.kv_lens, 0, std::numeric_limits<std::int32_t>::max()}};  // rows before these, and these
  return out;
}

double recurrent_bytes(const CallDesc& call, int arg, const RecurrentArgs& at) {
  if (arg != at.state || !call.has(arg)) return each_argument_once(call, arg, {});
  return 2.0 * bytes_of_rows(call, at.state, at.seats);
}

void add_state(CallBuilder& builder, const Emitter& emitter, const RecurrentState& state, const RecurrentArgs& at) {
  if (!state.state.present()) return;
  builder.in(at.kv_lens, state.kv_lens).in(at.seats, state.seats).state(emitter, at.state, state.state);
}

}  // namespace tern::ops
