// What ops share that carry a state through sequences; and how gated_delta_rule and selective_scan cut states
// [state_rows, columns], as cu/recurrent.cuh carries them.
#pragma once

#include <algorithm>

#include "backends/cuda/rows.h"

namespace tern::cuda {

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

inline constexpr std::int64_t kMostStateRows = 256;
inline constexpr std::int64_t kTile = 16;     // TILE: rows that are staged at once
inline constexpr std::int64_t kHeldRows = 4;  // HELD of cu/recurrent_backward.cuh
inline constexpr std::int64_t kBackwardBytes = std::int64_t{1}
                                               << 30;  // of a backward's workspace, if a head needs no more

// A block carries 8 columns for each of its warps, whose 4 threads of a column hold `held` rows of it each.
struct Carrier {
  std::int64_t held, warps;
  std::int64_t chunks;  // blocks that have a head's columns
  [[nodiscard]] constexpr std::int64_t room() const { return 4 * held; }
  [[nodiscard]] constexpr std::int64_t columns() const { return 8 * warps; }
  [[nodiscard]] constexpr std::int64_t threads() const { return 32 * warps; }
};
[[nodiscard]] constexpr Carrier carrier_of(std::int64_t state_rows, std::int64_t columns) {
  const std::int64_t held = state_rows <= 32 ? 8 : state_rows <= 128 ? 32 : 64;
  const std::int64_t warps = std::clamp<std::int64_t>(parts_of(columns, 8), 1, 4);
  return {held, warps, parts_of(columns, 8 * warps)};
}
// The kernel's instance: <kernel>_32, _128 or _256.
[[nodiscard]] inline std::string carrying(const char* kernel, std::int64_t state_rows) {
  return std::string(kernel) + "_" + std::to_string(carrier_of(state_rows, 1).room());
}
// Bytes of shared memory for a tile: two vectors [room], `of_columns` of [columns] and two numbers of each row.
[[nodiscard]] constexpr std::size_t tile_bytes(const Carrier& carrier, std::int64_t of_columns) {
  const std::int64_t floats = kTile * (2 * carrier.room() + of_columns * carrier.columns() + 2);
  return static_cast<std::size_t>(floats) * sizeof(float);
}
[[nodiscard]] constexpr std::size_t backward_bytes(const Carrier& carrier, std::int64_t of_columns) {
  const std::int64_t held = kTile / kHeldRows * carrier.held * carrier.threads();
  const std::int64_t sums = 2 * carrier.warps * (2 * carrier.room() + 4);
  return tile_bytes(carrier, of_columns) + static_cast<std::size_t>(held + sums) * sizeof(float);
}

// What a backward is asked for; a group of heads shares k_heads' keys, or a group's b and c.
struct RecurrentSizes {
  std::int64_t rows, heads, groups, state_rows, columns, sequences;
  std::int64_t sums;  // of a head of a row, over its columns
};
// The struct BackwardLaunch of cu/recurrent_backward.cuh.
struct BackwardLaunch {
  std::int64_t first_head, heads;
  std::int32_t state_rows, extra;
};
// A backward's workspace: sums over columns of so many heads as it takes at once, then their states.
struct BackwardPlan {
  std::int64_t heads;   // of a launch
  std::int64_t sums;    // floats
  std::int64_t states;  // floats
  [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(sums + states) * sizeof(float); }
};
[[nodiscard]] inline BackwardPlan plan_backward(const RecurrentSizes& sizes) {
  const Carrier carrier = carrier_of(sizes.state_rows, sizes.columns);
  const std::int64_t places = sizes.rows / kTile + sizes.sequences + 1;
  const std::int64_t states = carrier.chunks * places * carrier.held * carrier.threads();
  const std::int64_t sums = carrier.chunks * sizes.rows * sizes.sums;
  const std::int64_t group = sizes.heads / std::max<std::int64_t>(sizes.groups, 1);
  const std::int64_t bytes = group * (states + sums) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t groups = std::clamp<std::int64_t>(kBackwardBytes / std::max<std::int64_t>(bytes, 1), 1,
                                                       std::max<std::int64_t>(sizes.groups, 1));
  return {groups * group, round_up(groups * group * sums, 64), groups * group * states};
}

}  // namespace tern::cuda
