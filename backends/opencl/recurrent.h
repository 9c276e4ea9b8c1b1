// What ops share that carry a state through sequences; and of gated_delta_rule and selective_scan how many columns of a
// state a work-item carries, and how their backwards cut the columns where sums over them need memory.
#pragma once

#include <algorithm>
#include <bit>

#include "backends/opencl/check.h"
#include "backends/opencl/rows.h"

namespace tern::opencl {

inline constexpr std::int64_t kHeldRows = 8;           // HELD: rows whose states a backward computes at once
inline constexpr std::int64_t kMostStateRows = 1024;   // of a state that lies in private memory
inline constexpr std::int64_t kSlotBytes = 256 << 20;  // of a backward's workspace, if one slot needs no more

// Where an op has what goes with its state.
struct StatePlaces {
  int state, seats, kv_lens, cu_seqlens;
};
// A state, a seat and a length for each sequence, or none of them.
inline Check& check_state(Check& check, const PlanDesc& desc, const StatePlaces& at) {
  const bool has_state = desc.present(at.state);
  return check.dtype(at.cu_seqlens, TERN_I32)
      .dtype(at.kv_lens, TERN_I32)
      .dtype(at.seats, TERN_I32)
      .that(has_state == desc.present(at.seats) && has_state == desc.present(at.kv_lens),
            "state comes with seats and kv_lens")
      .rank(at.cu_seqlens, 1)
      .same_shape({at.kv_lens, at.seats})
      .dim(at.seats, 0, desc.arg(at.cu_seqlens).shape[0] - 1);
}

// Private memory is an array of known size.
[[nodiscard]] inline std::int64_t room_for(std::int64_t state_rows) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(state_rows, 1))));
}

// A backward's workspace: for each slot, states (kept before each kHeldRows rows), and sums over its columns.
struct Slots {
  std::int64_t states = 0;  // floats of a slot
  std::int64_t sums = 0;
  std::int64_t count = 1;
};
struct RecurrentSizes {
  std::int64_t rows, heads, state_rows, columns, sequences;
  std::int64_t sums;  // of a head of a row
};
[[nodiscard]] inline Slots slots_of(const Facts& device, const RecurrentSizes& sizes) {
  const std::int64_t width = row_tile(device).width;
  Slots slots;
  slots.states = (sizes.rows / kHeldRows + sizes.sequences + 1) * sizes.heads * sizes.state_rows * width;
  slots.sums = round_up(sizes.rows * sizes.heads * sizes.sums, 16);
  const std::int64_t bytes = (slots.states + slots.sums) * static_cast<std::int64_t>(sizeof(float));
  slots.count = std::clamp<std::int64_t>(kSlotBytes / std::max<std::int64_t>(bytes, 1), 1,
                                         std::max<std::int64_t>(parts_of(sizes.columns, width), 1));
  return slots;
}
[[nodiscard]] inline std::uint64_t slot_bytes(const Slots& slots) {
  return static_cast<std::uint64_t>(slots.count * (slots.states + slots.sums)) * sizeof(float);
}

}  // namespace tern::opencl
