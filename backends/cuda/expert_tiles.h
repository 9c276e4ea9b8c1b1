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

// How the rows of [rows, parts, ...] are counted: row i at i / parts row + i % parts sub; one after the other where
// those of both tensors lie so. x's strides; y is the other.
struct ExpertRows {
  std::int64_t parts, row, sub;
};
[[nodiscard]] inline ExpertRows expert_rows(const tern_tensor_desc& x, const tern_tensor_desc& y) {
  const auto joined = [](const tern_tensor_desc& t) { return t.strides[0] == t.shape[1] * t.strides[1]; };
  if (x.shape[1] == 1) return {1, x.strides[0], 0};
  if (joined(x) && joined(y)) return {1, x.strides[1], 0};
  return {x.shape[1], x.strides[0], x.strides[1]};
}

}  // namespace tern::cuda
