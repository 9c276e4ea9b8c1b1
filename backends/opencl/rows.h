// What ops that go row by row share: how many rows a work-group takes, and how its work-items cut them
// (cl/vectors.clh).
#pragma once

#include "backends/opencl/kernels.h"

namespace tern::opencl {

// On a CPU a work-group is one work-item, which computes in vectors as wide as they come and takes some rows; on a GPU
// a work-group shares one row.
struct RowTile {
  std::int64_t width = 16;  // W: elements of a vector
  std::int64_t group = 1;   // GROUP: work-items
  std::int64_t rows = 4;    // of a work-group
};
[[nodiscard]] inline RowTile row_tile(const Facts& device) {
  if (device.cpu) return {};
  return {.width = 4, .group = device.largest_group < 64 ? 16 : 64, .rows = 1};
}
inline Defines& tile_defines(Defines& defines, const RowTile& tile, const char* rows) {
  return defines.set("W", tile.width).set("GROUP", tile.group).set(rows, tile.rows);
}

// Rows whose sum is kept on its own, before these are summed over columns (cl/column_sum.clh): for gradients of
// weights.
inline constexpr std::int64_t kSummedRows = 32;
inline Defines& sum_defines(Defines& defines, const RowTile& tile, const char* rows) {
  return defines.set("W", tile.width).set("GROUP", 1).set(rows, kSummedRows);
}
[[nodiscard]] inline std::uint64_t partial_bytes(std::int64_t rows, std::int64_t width) {
  return static_cast<std::uint64_t>(parts_of(rows, kSummedRows) * width) * sizeof(float);
}
// Calls column_sum: out [width] (+)= the sums of partial [blocks, width].
inline void sum_columns(Call call, const Launch& launch, const Place& partial, int out, std::int64_t blocks) {
  const TensorView& sums = launch[out];
  const std::int64_t width = sums.dim(0);
  call.arg(partial)
      .arg(sums)
      .arg(blocks)
      .arg(width)
      .arg(sums.stride(0))
      .arg<std::int32_t>(launch.accumulates(out) ? 1 : 0);
  call.run(parts_of(width, row_tile(launch.device()).width), plain_group(launch.device()));
}

// The strides of a tensor, of 0 where it is absent.
template <std::size_t rank>
void take_strides(const TensorView& tensor, std::int64_t (&strides)[rank]) {
  for (std::size_t d = 0; d < rank; ++d) strides[d] = tensor.present() ? tensor.desc.strides[d] : 0;
}
[[nodiscard]] inline std::int64_t stride_of(const TensorView& tensor) {
  return tensor.present() ? tensor.stride(0) : 0;
}

}  // namespace tern::opencl
