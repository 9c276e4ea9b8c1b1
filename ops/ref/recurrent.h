// The sequences of an op that carries a state through each of them.
#pragma once

#include <limits>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

struct Sequence {
  std::int64_t begin;  // its rows
  std::int64_t end;
  std::int64_t seat;  // of its state; -1: it has none
  bool goes_on;       // from its state; else from zeros
};

// Calls visit(sequence) for each that has rows. `kv_lens` and `seats` are absent together.
template <typename Visit>
void for_each_sequence(const Tensor& cu_seqlens, const Tensor& kv_lens, const Tensor& seats, Visit&& visit) {
  for (std::size_t s = 0; s + 1 < cu_seqlens.integer.size(); ++s) {
    Sequence sequence{cu_seqlens.integer[s], cu_seqlens.integer[s + 1], -1, false};
    if (sequence.begin == sequence.end) continue;
    if (seats.present()) {
      sequence.seat = seats.integer[s];
      sequence.goes_on = kv_lens.integer[s] > sequence.end - sequence.begin;
    }
    visit(sequence);
  }
}

// What seat 0 holds afterwards is open, and different from before, so that who reads it is found.
inline void open_seat_of_padding(Tensor& state) {
  if (!state.present() || state.real.empty()) return;
  constexpr double kNobodys = 12345.0;
  const auto count = static_cast<std::ptrdiff_t>(state.real.size()) / state.size(0);
  std::fill(state.real.begin(), state.real.begin() + count, kNobodys);
  std::fill(state.slack.begin(), state.slack.begin() + count, std::numeric_limits<double>::infinity());
}

}  // namespace tern::ops::ref
