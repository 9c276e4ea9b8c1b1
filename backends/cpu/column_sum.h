// Sums over rows, column by column: 64 rows at a time in fp32, those in double, in the order of rows whatever the
// number of threads.
#pragma once

#include <algorithm>

#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {

inline constexpr std::int64_t kColumns = 256;  // that one thread sums at once

// row_tile(row, first, n, buffer) gives n <= kColumns values of a row from column `first` on, in `buffer` or elsewhere.
template <typename RowTile>
void column_sum(const KernelArgs& args, std::int64_t rows, std::int64_t width, const TensorView& out, bool accumulate,
                RowTile&& row_tile) {
  constexpr std::int64_t kRows = 64;
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, rows * kColumns));
  args.pool->parallel_for((width + kColumns - 1) / kColumns, grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    alignas(64) float part[kColumns];
    double total[kColumns];
    for (std::int64_t column = begin; column < end; ++column) {
      const std::int64_t first = column * kColumns, n = std::min(kColumns, width - first);
      std::fill(total, total + n, 0.0);
      for (std::int64_t block = 0; block < rows; block += kRows) {
        std::fill(part, part + n, 0.0F);
        for (std::int64_t row = block; row < std::min(rows, block + kRows); ++row) {
          math.add(part, row_tile(row, first, n, buffer.data()), static_cast<std::size_t>(n), part);
        }
        for (std::int64_t i = 0; i < n; ++i) total[i] += static_cast<double>(part[i]);
      }
      for (std::int64_t i = 0; i < n; ++i) part[i] = static_cast<float>(total[i]);
      io.store(out, first * out.stride(0), out.stride(0), n, accumulate, part);
    }
  });
}

}  // namespace tern::cpu
