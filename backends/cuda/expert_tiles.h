// Lists of tiles of rows that belong to experts, made on the device, where the experts' bounds are: cu/expert_tiles.cu.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cuda/check.h"
#include "backends/cuda/kernel.h"

namespace tern::cuda {

inline constexpr const char* kExpertTilesFunction = "expert_tiles";

// Tiles of up to `step` rows each, at most, so many that all of `rows` have one: those of no expert too.
[[nodiscard]] inline std::int64_t num_expert_tiles(std::int64_t rows, std::int64_t experts, std::int64_t step) {
  return std::min(rows, rows / step + experts + 1);
}
[[nodiscard]] inline std::uint64_t expert_tiles_bytes(std::int64_t rows, std::int64_t experts, std::int64_t step) {
  return static_cast<std::uint64_t>(round_up(num_expert_tiles(rows, experts, step) * 16, 256));
}
// offsets [experts + 1] i32 -> tiles, four int each: first row, end, expert (-1: none), 0. Those left over are empty.
inline void run_expert_tiles(Call call, const TensorView& offsets, Place tiles, std::int64_t rows, std::int64_t step) {
  const std::int64_t experts = offsets.dim(0) - 1;
  call.arg(offsets).arg(tiles).arg(static_cast<std::int32_t>(experts)).arg(static_cast<std::int32_t>(rows));
  call.arg(static_cast<std::int32_t>(step)).arg(static_cast<std::int32_t>(num_expert_tiles(rows, experts, step)));
  call.run({1, 1, 1}, {32, 1, 1});
}

}  // namespace tern::cuda
