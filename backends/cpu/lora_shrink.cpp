// The narrow half of a low-rank adapter, with dropout: x is read once, and what dropout leaves of it lies in tiles alone.
#include <algorithm>
#include <array>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kRows = 4;  // that TileMath::add_outer takes at once

// x and what drops its elements, read by tiles of a row.
class DroppedRows {
 public:
  DroppedRows(const KernelArgs& args, int x, int keys, int mask, float rate, std::int32_t site)
      : x_(args[x]),
        keys_(args[keys]),
        mask_(args[mask]),
        rate_(rate),
        site_(static_cast<std::uint32_t>(site)),
        factor_(static_cast<float>(1.0 / (1.0 - static_cast<double>(rate)))),
        io_(args),
        math_(tile_math(args.target)) {}

  [[nodiscard]] bool drops() const { return keys_.present(); }

  // Which of n elements from `first` on are kept; `first` is a multiple of 4, and `keep` has room for 3 more.
  void find_kept(std::int64_t row, std::int64_t first, std::int64_t n, std::uint8_t* keep) const {
    if (mask_.present()) {
      const auto* from = mask_.data<const std::uint8_t>() + row * mask_.stride(0) + first * mask_.stride(1);
      for (std::int64_t i = 0; i < n; ++i) keep[i] = from[i * mask_.stride(1)];
      return;
    }
    const auto key = static_cast<std::uint64_t>(keys_.data<const std::int64_t>()[row * keys_.stride(0)]);
    math_.philox_keep(key, static_cast<std::uint32_t>(first / 4), site_, rate_, static_cast<std::size_t>((n + 3) / 4),
                      keep);
  }
  // values where they are kept, scaled, else 0; `out` may be `values`.
  void drop(const std::uint8_t* keep, const float* values, std::int64_t n, float* out) const {
    math_.select(keep, values, factor_, static_cast<std::size_t>(n), out);
  }
  // n elements of x, where they lie or in `buffer`.
  const float* load(std::int64_t row, std::int64_t first, std::int64_t n, float* buffer) const {
    return io_.load(x_, row * x_.stride(0) + first * x_.stride(1), x_.stride(1), n, buffer);
  }

 private:
  const TensorView& x_;
  const TensorView& keys_;
  const TensorView& mask_;
  float rate_;
  std::uint32_t site_;
  float factor_;
  TileIo io_;
  const TileMath& math_;
};

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

constexpr std::int64_t kColumns = 256;  // at most, of a tile of the backward: an element's bits don't depend on it

std::uint64_t backward_workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_LORA_SHRINK_BACKWARD_X);
  const std::int64_t ranks = desc.arg(TERN_LORA_SHRINK_BACKWARD_A).shape[0];
  return floats(ranks * x.shape[1]) + floats(x.shape[0] * ranks) +
         static_cast<std::uint64_t>(desc.num_threads) * floats(ranks * kColumns);
}

// The gradients of some columns of x and a, by all rows in their order.
class BackwardColumns {
 public:
  BackwardColumns(const KernelArgs& args, const float* dh, const float* a)
      : dh_(dh),
        a_(a),
        dx_(args[TERN_LORA_SHRINK_BACKWARD_DX]),
        da_(args[TERN_LORA_SHRINK_BACKWARD_DA]),
        adds_dx_(args.accumulates(TERN_LORA_SHRINK_BACKWARD_DX)),
        adds_da_(args.accumulates(TERN_LORA_SHRINK_BACKWARD_DA)),
        rows_(args[TERN_LORA_SHRINK_BACKWARD_X].dim(0)),
        in_(args[TERN_LORA_SHRINK_BACKWARD_X].dim(1)),
        ranks_(args[TERN_LORA_SHRINK_BACKWARD_A].dim(0)),
        x_(args, TERN_LORA_SHRINK_BACKWARD_X, TERN_LORA_SHRINK_BACKWARD_KEYS, TERN_LORA_SHRINK_BACKWARD_MASK,
           args.attr<tern_lora_shrink_backward_attrs>().rate, args.attr<tern_lora_shrink_backward_attrs>().site),
        io_(args),
        math_(tile_math(args.target)) {}

  // `sums`: room for [ranks, kColumns].
  void run(std::int64_t first, std::int64_t n, float* sums) const {
    alignas(64) std::array<float, kRows * kColumns> tile;
    alignas(64) std::array<float, kColumns> grad;
    alignas(64) std::array<std::uint8_t, kColumns> keep;
    std::fill_n(sums, ranks_ * kColumns, 0.0F);
    for (std::int64_t row = 0; row < rows_; row += kRows) {
      const std::int64_t count = std::min(kRows, rows_ - row);
      for (std::int64_t i = 0; i < count; ++i) {
        if (x_.drops()) x_.find_kept(row + i, first, n, keep.data());
        if (da_.present()) load(row + i, first, n, keep.data(), tile.data() + i * kColumns);
        if (dx_.present()) give_dx(row + i, first, n, keep.data(), grad.data());
      }
      if (da_.present()) {
        math_.add_outer(dh_ + row * ranks_, tile.data(), kColumns, static_cast<std::size_t>(count),
                        static_cast<std::size_t>(ranks_), static_cast<std::size_t>(n), sums);
      }
    }
    for (std::int64_t r = 0; da_.present() && r < ranks_; ++r) {
      put(io_, da_, r * da_.stride(0) + first * da_.stride(1), n, adds_da_, sums + r * kColumns);
    }
  }

 private:
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
    math_.expand(dh_ + row * ranks_, a_ + first, static_cast<std::size_t>(in_), static_cast<std::size_t>(ranks_),
                 static_cast<std::size_t>(n), to);
    if (x_.drops()) x_.drop(keep, to, n, to);
    io_.store(dx_, at, dx_.stride(1), n, adds_dx_, to);
  }

  const float* dh_;  // [rows, ranks], times alpha
  const float* a_;   // [ranks, in]
  const TensorView& dx_;
  const TensorView& da_;
  bool adds_dx_;
  bool adds_da_;
  std::int64_t rows_;
  std::int64_t in_;
  std::int64_t ranks_;
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
  const BackwardColumns columns(args, dh, a);
  const std::int64_t share = in / (4 * args.pool->num_threads());
  const std::int64_t width = std::clamp<std::int64_t>(round_up(share, 16), 16, kColumns);
  args.pool->parallel_tasks((in + width - 1) / width, [&](std::int64_t tile, int thread) {
    auto* sums = reinterpret_cast<float*>(room + static_cast<std::uint64_t>(thread) * floats(ranks * kColumns));
    columns.run(tile * width, std::min(width, in - tile * width), sums);
  });
}

constexpr std::array kKernels = {
    KernelEntry{TERN_OP_LORA_SHRINK, "lora_shrink", supports, workspace, nullptr, run},
    KernelEntry{TERN_OP_LORA_SHRINK_BACKWARD, "lora_shrink_backward", backward_supports, backward_workspace, nullptr,
                run_backward},
};

}  // namespace

KernelList lora_shrink_kernels() { return kKernels; }

}  // namespace tern::cpu
