#include "backends/cuda/narrow.h"

#include <algorithm>

namespace tern::cuda {
namespace {

constexpr std::int64_t kVector = 8;
constexpr std::int64_t kShrinkRows = 4, kShrinkThreads = 256;  // rows of a warp
constexpr std::int64_t kExpandRows = 4, kThreads = 128;
constexpr std::int64_t kLeastRows = 32;  // of a part of a sum over rows
constexpr std::int64_t kBlocksEach = 6;  // of a multiprocessor, that a sum over rows is cut for

enum Kernel : std::size_t { kLay, kShrink, kExpand, kReduce, kCombine };

// The struct NarrowSizes of cu/narrow.cu.
struct Sizes {
  std::int64_t rows = 0, width = 0, pitch = 0;
  std::int32_t rank = 0, results = 0;
  std::int64_t large[2] = {};
  std::int64_t out[2] = {};
  float alpha = 1.0F;
  std::int32_t rows_each = 0;
};
// The struct LaySizes there.
struct LaySizes {
  std::int64_t rows, columns, filled_rows, filled_columns;
  std::int64_t from[2];
};

Sizes sizes_of(const Matrix& large, std::int64_t rank, float alpha) {
  Sizes sizes;
  sizes.rows = large.rows;
  sizes.width = large.columns;
  sizes.pitch = round_up(large.columns, kVector);
  sizes.rank = static_cast<std::int32_t>(round_up(rank, kRankGroup));
  sizes.results = static_cast<std::int32_t>(rank);
  sizes.large[0] = large.row;
  sizes.large[1] = large.column;
  sizes.alpha = alpha;
  return sizes;
}

// Parts of a sum over rows, at most: as many as fill the device, and no more for fewer rows.
std::int64_t most_parts(std::int64_t rows, std::int64_t width, std::int64_t rank, const Facts& facts) {
  const std::int64_t across =
      std::max<std::int64_t>(parts_of(width, kThreads * kVector) * parts_of(rank, kRankGroup), 1);
  return std::clamp<std::int64_t>(facts.multiprocessors * kBlocksEach / across, 1,
                                  std::max<std::int64_t>(parts_of(rows, kLeastRows), 1));
}

std::uint64_t floats(std::int64_t count) { return static_cast<std::uint64_t>(round_up(count * 4, 256)); }

}  // namespace

Matrix matrix_of(const TensorView& view) {
  return {view.plane(0), view.dim(0), view.dim(1), view.stride(0), view.stride(1)};
}

Functions narrow_functions() {
  return {"narrow_lay", "narrow_shrink", "narrow_expand", "narrow_reduce", "narrow_combine"};
}

std::uint64_t narrow_bytes(std::int64_t rows, std::int64_t width, std::int64_t rank, const Facts& facts) {
  const std::int64_t ranks = round_up(std::max<std::int64_t>(rank, 1), kRankGroup), pitch = round_up(width, kVector);
  return floats(rows * ranks) + floats(most_parts(rows, width, rank, facts) * ranks * pitch);
}

Place NarrowProducts::lay(const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  const Place to = next_;
  next_ += floats(rows * columns);
  const LaySizes sizes{matrix.rows, matrix.columns, rows, columns, {matrix.row, matrix.column}};
  launch_.call(first_ + kLay).arg(matrix.tensor).arg(to).arg(sizes).run(rows * columns, kPlainThreads);
  return to;
}

void NarrowProducts::shrink(const Matrix& large, const Matrix& narrow, const Matrix& out, float alpha,
                            const Dropping& drop) {
  Sizes sizes = sizes_of(large, narrow.rows, alpha);
  sizes.out[0] = out.row;
  sizes.out[1] = out.column;
  const Place side = lay(narrow, sizes.rank, sizes.pitch);
  Call call = launch_.call(first_ + kShrink);
  call.arg(large.tensor).arg(side).arg(out.tensor).arg(sizes).arg(drop);
  call.run({parts_of(large.rows, kShrinkRows * kShrinkThreads / 32), sizes.rank / kRankGroup, 1},
           {kShrinkThreads, 1, 1});
}

void NarrowProducts::expand(const Matrix& left, const Matrix& right, const Matrix& large, float alpha,
                            const Dropping& drop) {
  const Sizes sizes = sizes_of(large, left.columns, alpha);
  const Place low = lay(left, left.rows, sizes.rank), side = lay(right, sizes.rank, sizes.pitch);
  Call call = launch_.call(first_ + kExpand);
  call.arg(low).arg(side).arg(large.tensor).arg(sizes).arg(drop);
  call.run({parts_of(large.rows, kExpandRows), parts_of(large.columns, kThreads * kVector), 1}, {kThreads, 1, 1});
}

void NarrowProducts::reduce(const Matrix& left, const Matrix& large, const Matrix& out, float alpha,
                            const Dropping& drop) {
  Sizes sizes = sizes_of(large, left.columns, alpha);
  sizes.out[0] = out.column;
  sizes.out[1] = out.row;
  const std::int64_t most = most_parts(large.rows, large.columns, left.columns, launch_.device());
  sizes.rows_each = static_cast<std::int32_t>(std::max(parts_of(large.rows, most), kLeastRows));
  const std::int64_t parts = parts_of(large.rows, sizes.rows_each);
  const Place low = lay(left, left.rows, sizes.rank);
  Call call = launch_.call(first_ + kReduce);
  call.arg(low).arg(large.tensor).arg(next_).arg(sizes).arg(drop);
  call.run({parts_of(large.columns, kThreads * kVector), parts, sizes.rank / kRankGroup}, {kThreads, 1, 1});
  Call combine = launch_.call(first_ + kCombine);
  combine.arg(next_).arg(out.tensor).arg(sizes).arg(static_cast<std::int32_t>(parts));
  combine.run(static_cast<std::int64_t>(sizes.results) * large.columns, kPlainThreads);
}

}  // namespace tern::cuda
