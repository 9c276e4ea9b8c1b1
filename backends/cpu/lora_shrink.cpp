// The narrow half of a low-rank adapter, with dropout: x is read once, and what dropout leaves of it lies in tiles alone.
#include <algorithm>
#include <array>

#include "backends/cpu/check.h"
#include "backends/cpu/dropped_rows.h"
#include "backends/cpu/kernels.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kRows = 4;  // that TileMath::add_outer takes together

// A matrix as contiguous fp32, times a factor: where it lies, or in `room` for all of its elements.
const float* dense(const KernelArgs& args, const TensorView& matrix, float factor, float* room) {
  const std::int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  if (factor == 1.0F && matrix.dtype() == TERN_F32 && matrix.stride(1) == 1 && matrix.stride(0) == columns) {
    return matrix.data<const float>();
  }
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  alignas(64) TileBuffer buffer;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t first = 0; first < columns; first += kTile) {
      const std::int64_t n = std::min(kTile, columns - first);
      const float* from =
          io.load(matrix, row * matrix.stride(0) + first * matrix.stride(1), matrix.stride(1), n, buffer.data());
      math.scale(factor, from, static_cast<std::size_t>(n), room + row * columns + first);
    }
  }
  return room;
}

// n values into the last dimension of a matrix, from element `at` on.
void put(const TileIo& io, const TensorView& matrix, std::int64_t at, std::int64_t n, bool accumulate, float* values) {
  const std::int64_t stride = matrix.stride(1);
  for (std::int64_t first = 0; first < n; first += kTile) {
    const std::int64_t count = std::min(kTile, n - first);
    float* to = TileIo::place(matrix, at + first * stride, stride, accumulate, values + first);
    if (to != values + first) std::copy_n(values + first, count, to);
    io.store(matrix, at + first * stride, stride, count, accumulate, to);
  }
}

std::uint64_t floats(std::int64_t count) { return round_up(static_cast<std::uint64_t>(count) * sizeof(float)); }

float* take(std::byte*& workspace, std::int64_t count) {
  auto* out = reinterpret_cast<float*>(workspace);
  workspace += floats(count);
  return out;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_LORA_SHRINK_X);
  return Check(desc, reason)
      .floats({TERN_LORA_SHRINK_X, TERN_LORA_SHRINK_A, TERN_LORA_SHRINK_H})
      .dtype(TERN_LORA_SHRINK_KEYS, TERN_I64)
      .dtype(TERN_LORA_SHRINK_MASK, TERN_U8)
      .rank(TERN_LORA_SHRINK_X, 2)
      .same_shape({TERN_LORA_SHRINK_X, TERN_LORA_SHRINK_MASK})
      .dim(TERN_LORA_SHRINK_A, 1, x.shape[1])
      .dim(TERN_LORA_SHRINK_KEYS, 0, x.shape[0])
      .dim(TERN_LORA_SHRINK_H, 0, x.shape[0])
      .dim(TERN_LORA_SHRINK_H, 1, desc.arg(TERN_LORA_SHRINK_A).shape[0])
      .ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& a = desc.arg(TERN_LORA_SHRINK_A);
  return floats(a.shape[0] * a.shape[1]) + static_cast<std::uint64_t>(desc.num_threads) * floats(a.shape[0]);
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_lora_shrink_attrs>();
  const TensorView& h = args[TERN_LORA_SHRINK_H];
  const std::int64_t rows = h.dim(0), ranks = h.dim(1), in = args[TERN_LORA_SHRINK_X].dim(1);
  const DroppedRows x(args, TERN_LORA_SHRINK_X, TERN_LORA_SHRINK_KEYS, TERN_LORA_SHRINK_MASK, attrs.rate, attrs.site);
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  std::byte* room = args.workspace;
  const float* a = dense(args, args[TERN_LORA_SHRINK_A], 1.0F, take(room, ranks * in));
  // Few rows are shared among threads by their ranks, in blocks that TileMath::shrink takes whole anyway.
  const std::int64_t block = rows >= 4 * args.pool->num_threads() ? std::max<std::int64_t>(1, ranks) : 8;
  const std::int64_t blocks = (ranks + block - 1) / block;
  const std::int64_t grain = 1 + kParallelFrom / std::max<std::int64_t>(1, in * std::min(block, ranks) / 8);
  args.pool->parallel_for(rows * blocks, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    alignas(64) TileBuffer buffer;
    alignas(64) std::uint8_t keep[kTile];
    auto* sums = reinterpret_cast<float*>(room + static_cast<std::uint64_t>(thread) * floats(ranks));
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t row = unit / blocks, rank = unit % blocks * block, count = std::min(block, ranks - rank);
      std::fill_n(sums, count, 0.0F);
      for (std::int64_t first = 0; first < in; first += kTile) {
        const std::int64_t n = std::min(kTile, in - first);
        const float* values = x.load(row, first, n, buffer.data());
        if (x.drops()) {
          x.find_kept(row, first, n, keep);
          x.drop(keep, values, n, buffer.data());
          values = buffer.data();
        }
        math.shrink(values, a + rank * in + first, static_cast<std::size_t>(in), static_cast<std::size_t>(count),
                    static_cast<std::size_t>(n), sums);
      }
      math.scale(attrs.alpha, sums, static_cast<std::size_t>(count), sums);
      put(io, h, row * h.stride(0) + rank * h.stride(1), count, false, sums);
    }
  });
}

bool backward_supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_LORA_SHRINK_BACKWARD_X);
  const auto& a = desc.arg(TERN_LORA_SHRINK_BACKWARD_A);
  return Check(desc, reason)
      .floats({TERN_LORA_SHRINK_BACKWARD_DH, TERN_LORA_SHRINK_BACKWARD_X, TERN_LORA_SHRINK_BACKWARD_A,
               TERN_LORA_SHRINK_BACKWARD_DX})
      .dtype(TERN_LORA_SHRINK_BACKWARD_KEYS, TERN_I64)
      .dtype(TERN_LORA_SHRINK_BACKWARD_MASK, TERN_U8)
      .dtype(TERN_LORA_SHRINK_BACKWARD_DA, TERN_F32)
      .rank(TERN_LORA_SHRINK_BACKWARD_X, 2)
      .same_shape({TERN_LORA_SHRINK_BACKWARD_X, TERN_LORA_SHRINK_BACKWARD_MASK, TERN_LORA_SHRINK_BACKWARD_DX})
      .same_shape({TERN_LORA_SHRINK_BACKWARD_A, TERN_LORA_SHRINK_BACKWARD_DA})
      .dim(TERN_LORA_SHRINK_BACKWARD_A, 1, x.shape[1])
      .dim(TERN_LORA_SHRINK_BACKWARD_KEYS, 0, x.shape[0])
      .dim(TERN_LORA_SHRINK_BACKWARD_DH, 0, x.shape[0])
      .dim(TERN_LORA_SHRINK_BACKWARD_DH, 1, a.shape[0])
      .ok();
}

// The work of the backward, cut by sizes alone: some rows by some columns, whose part of da is summed apart.
struct Pieces {
  static constexpr std::int64_t kMostChunks = 8, kLeastRows = 64, kMostColumns = 512;

  Pieces(std::int64_t all_rows, std::int64_t in) : rows(all_rows), columns(in) {
    chunks = std::clamp<std::int64_t>(rows / kLeastRows, 1, kMostChunks);
    tiles = (columns + kMostColumns - 1) / kMostColumns;
    width = tiles == 0 ? 0 : round_up((columns + tiles - 1) / tiles, 16);
  }
  [[nodiscard]] std::int64_t first_row(std::int64_t chunk) const { return rows * chunk / chunks; }

  std::int64_t rows, columns, chunks, tiles, width;
};

std::uint64_t backward_workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_LORA_SHRINK_BACKWARD_X);
  const std::int64_t ranks = desc.arg(TERN_LORA_SHRINK_BACKWARD_A).shape[0];
  const Pieces pieces(x.shape[0], x.shape[1]);
  return floats(ranks * x.shape[1]) + floats(x.shape[0] * ranks) +
         static_cast<std::uint64_t>(pieces.chunks * pieces.tiles) * floats(ranks * pieces.width);
}

class Backward {
 public:
  // dh [rows, ranks], times alpha; a [ranks, in]; sums: [chunks, tiles, ranks, width].
  Backward(const KernelArgs& args, const float* dh, const float* a, float* sums)
      : dh_(dh),
        a_(a),
        sums_(sums),
        dx_(args[TERN_LORA_SHRINK_BACKWARD_DX]),
        da_(args[TERN_LORA_SHRINK_BACKWARD_DA]),
        adds_dx_(args.accumulates(TERN_LORA_SHRINK_BACKWARD_DX)),
        adds_da_(args.accumulates(TERN_LORA_SHRINK_BACKWARD_DA)),
        ranks_(args[TERN_LORA_SHRINK_BACKWARD_A].dim(0)),
        pieces_(args[TERN_LORA_SHRINK_BACKWARD_X].dim(0), args[TERN_LORA_SHRINK_BACKWARD_X].dim(1)),
        x_(args, TERN_LORA_SHRINK_BACKWARD_X, TERN_LORA_SHRINK_BACKWARD_KEYS, TERN_LORA_SHRINK_BACKWARD_MASK,
           args.attr<tern_lora_shrink_backward_attrs>().rate, args.attr<tern_lora_shrink_backward_attrs>().site),
        io_(args),
        math_(tile_math(args.target)) {}

  void run(ThreadPool& pool) const {
    pool.parallel_tasks(pieces_.chunks * pieces_.tiles,
                        [&](std::int64_t piece, int) { run_piece(piece / pieces_.tiles, piece % pieces_.tiles); });
    if (!da_.present()) return;
    pool.parallel_for(ranks_ * pieces_.tiles, 1 + kParallelFrom / std::max<std::int64_t>(1, pieces_.width * pieces_.chunks),
                      [&](std::int64_t begin, std::int64_t end, int) {
                        for (std::int64_t row = begin; row < end; ++row) give_da(row / pieces_.tiles, row % pieces_.tiles);
                      });
  }

 private:
  [[nodiscard]] float* sums_of(std::int64_t chunk, std::int64_t tile) const {
    const std::uint64_t one = floats(ranks_ * pieces_.width) / sizeof(float);
    return sums_ + static_cast<std::uint64_t>(chunk * pieces_.tiles + tile) * one;
  }
  [[nodiscard]] std::int64_t columns_of(std::int64_t tile) const {
    return std::clamp<std::int64_t>(pieces_.columns - tile * pieces_.width, 0, pieces_.width);
  }

  void run_piece(std::int64_t chunk, std::int64_t tile) const {
    alignas(64) std::array<float, kRows * Pieces::kMostColumns> values;
    alignas(64) std::array<float, Pieces::kMostColumns> grad;
    alignas(64) std::array<std::uint8_t, Pieces::kMostColumns> keep;
    const std::int64_t first = tile * pieces_.width, n = columns_of(tile), end = pieces_.first_row(chunk + 1);
    float* sums = sums_of(chunk, tile);
    std::fill_n(sums, ranks_ * pieces_.width, 0.0F);
    for (std::int64_t row = pieces_.first_row(chunk); row < end; row += kRows) {
      const std::int64_t count = std::min(kRows, end - row);
      for (std::int64_t i = 0; i < count; ++i) {
        if (x_.drops()) x_.find_kept(row + i, first, n, keep.data());
        if (da_.present()) load(row + i, first, n, keep.data(), values.data() + i * pieces_.width);
        if (dx_.present()) give_dx(row + i, first, n, keep.data(), grad.data());
      }
      if (da_.present()) {
        math_.add_outer(dh_ + row * ranks_, values.data(), static_cast<std::size_t>(pieces_.width),
                        static_cast<std::size_t>(count), static_cast<std::size_t>(ranks_), static_cast<std::size_t>(n),
                        sums);
      }
    }
  }

  // What dropout leaves of x.
  void load(std::int64_t row, std::int64_t first, std::int64_t n, const std::uint8_t* keep, float* to) const {
    const float* values = x_.load(row, first, n, to);
    if (x_.drops()) {
      x_.drop(keep, values, n, to);
    } else if (values != to) {
      std::copy_n(values, n, to);
    }
  }

  void give_dx(std::int64_t row, std::int64_t first, std::int64_t n, const std::uint8_t* keep, float* buffer) const {
    const std::int64_t at = row * dx_.stride(0) + first * dx_.stride(1);
    float* to = TileIo::place(dx_, at, dx_.stride(1), adds_dx_, buffer);
    math_.expand(dh_ + row * ranks_, a_ + first, static_cast<std::size_t>(pieces_.columns),
                 static_cast<std::size_t>(ranks_), static_cast<std::size_t>(n), to);
    if (x_.drops()) x_.drop(keep, to, n, to);
    io_.store(dx_, at, dx_.stride(1), n, adds_dx_, to);
  }

  // The sum over chunks, in their order.
  void give_da(std::int64_t rank, std::int64_t tile) const {
    const std::int64_t first = tile * pieces_.width, n = columns_of(tile);
    float* sum = sums_of(0, tile) + rank * pieces_.width;
    for (std::int64_t chunk = 1; chunk < pieces_.chunks; ++chunk) {
      math_.add(sum, sums_of(chunk, tile) + rank * pieces_.width, static_cast<std::size_t>(n), sum);
    }
    put(io_, da_, rank * da_.stride(0) + first * da_.stride(1), n, adds_da_, sum);
  }

  const float* dh_;
  const float* a_;
  float* sums_;
  const TensorView& dx_;
  const TensorView& da_;
  bool adds_dx_;
  bool adds_da_;
  std::int64_t ranks_;
  Pieces pieces_;
  DroppedRows x_;
  TileIo io_;
  const TileMath& math_;
};

void run_backward(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_lora_shrink_backward_attrs>();
  const TensorView& x = args[TERN_LORA_SHRINK_BACKWARD_X];
  const std::int64_t rows = x.dim(0), in = x.dim(1), ranks = args[TERN_LORA_SHRINK_BACKWARD_A].dim(0);
  std::byte* room = args.workspace;
  const float* a = dense(args, args[TERN_LORA_SHRINK_BACKWARD_A], 1.0F, take(room, ranks * in));
  const float* dh = dense(args, args[TERN_LORA_SHRINK_BACKWARD_DH], attrs.alpha, take(room, rows * ranks));
  Backward(args, dh, a, reinterpret_cast<float*>(room)).run(*args.pool);
}

constexpr std::array kKernels = {
    KernelEntry{TERN_OP_LORA_SHRINK, "lora_shrink", supports, workspace, nullptr, run},
    KernelEntry{TERN_OP_LORA_SHRINK_BACKWARD, "lora_shrink_backward", backward_supports, backward_workspace, nullptr,
                run_backward},
};

}  // namespace

KernelList lora_shrink_kernels() { return kKernels; }

}  // namespace tern::cpu
