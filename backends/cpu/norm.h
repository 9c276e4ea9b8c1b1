// What the norms share: rows of fp32 in the workspace, and weight gradients summed block by block.
#pragma once

#include <cmath>

#include "backends/cpu/column_sum.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {

inline constexpr std::int64_t kNormRows = 32;  // rows whose weight gradients one block sums

[[nodiscard]] inline std::int64_t norm_blocks(std::int64_t rows) { return (rows + kNormRows - 1) / kNormRows; }

// The workspace as rows of `width` floats, each on cache lines of its own.
[[nodiscard]] inline std::int64_t float_row_stride(std::int64_t width) { return (width + 15) / 16 * 16; }
[[nodiscard]] inline std::uint64_t float_rows(std::int64_t width, std::int64_t rows) {
  return static_cast<std::uint64_t>(float_row_stride(width) * rows) * sizeof(float);
}
[[nodiscard]] inline float* float_row(const KernelArgs& args, std::int64_t width, std::int64_t row) {
  return reinterpret_cast<float*>(args.workspace) + float_row_stride(width) * row;
}

// How many rows of a norm a thread takes at once.
[[nodiscard]] inline std::int64_t norm_grain(std::int64_t width) {
  return std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, width));
}

struct NormInput {
  const TensorView& x;
  const TensorView& residual;  // may be absent, and so is sum
  const TensorView& sum;
};
// Row r of s = x + residual, rounded as sum stores it: in `row`, or where x lies.
[[nodiscard]] inline const float* summed_row(const KernelArgs& args, const TileIo& io, const NormInput& of,
                                             std::int64_t r, float* row) {
  const TensorView &x = of.x, &residual = of.residual, &sum = of.sum;
  const std::int64_t width = x.dim(1);
  if (!residual.present()) return io.load(x, r * x.stride(0), x.stride(1), width, row);
  alignas(64) TileBuffer bx, br;
  for (std::int64_t first = 0; first < width; first += kTile) {
    const std::int64_t n = std::min(kTile, width - first);
    const float* px = io.load(x, r * x.stride(0) + first * x.stride(1), x.stride(1), n, bx.data());
    const float* pr =
        io.load(residual, r * residual.stride(0) + first * residual.stride(1), residual.stride(1), n, br.data());
    tile_math(args.target).add(px, pr, static_cast<std::size_t>(n), bx.data());
    const std::int64_t at = r * sum.stride(0) + first * sum.stride(1);
    io.store(sum, at, sum.stride(1), n, false, bx.data());
    const float* rounded = sum.dtype() == TERN_F32 ? bx.data() : io.load(sum, at, sum.stride(1), n, br.data());
    std::copy(rounded, rounded + n, row + first);
  }
  return row;
}

// The weight plus its offset, in row 0 of the workspace; an absent weight is 0.
[[nodiscard]] inline const float* offset_weight(const KernelArgs& args, const TileIo& io, const TensorView& weight,
                                                float offset, std::int64_t width) {
  float* row = float_row(args, width, 0);
  if (!weight.present()) {
    std::fill_n(row, width, offset);
    return row;
  }
  const float* from = io.load(weight, 0, weight.stride(0), width, row);
  for (std::int64_t i = 0; i < width; ++i) row[i] = from[i] + offset;
  return row;
}

// 1 / sqrt(mean(s^2) + eps); tiles are added in double.
[[nodiscard]] inline float reciprocal_rms(const TileMath& math, const float* s, std::int64_t width, float eps) {
  double squares = 0.0;
  for (std::int64_t first = 0; first < width; first += kTile) {
    const auto n = static_cast<std::size_t>(std::min(kTile, width - first));
    squares += static_cast<double>(math.dot(s + first, s + first, n));
  }
  return static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(eps)));
}

// dweight from the sums of the blocks, which lie one row after the other from `sums` on.
inline void add_blocks(const KernelArgs& args, const float* sums, std::int64_t blocks, const TensorView& dweight,
                       bool accumulate) {
  const std::int64_t width = dweight.dim(0), stride = float_row_stride(width);
  column_sum(
      args, blocks, width, dweight, accumulate,
      [&](std::int64_t block, std::int64_t first, std::int64_t, float*) { return sums + block * stride + first; });
}

}  // namespace tern::cpu
