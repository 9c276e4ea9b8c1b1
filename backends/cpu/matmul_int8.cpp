// matmul_q in int8: rows of x become whole numbers once, then each thread packs rows of the weight and multiplies.
#include <algorithm>
#include <utility>

#include "backends/cpu/check.h"
#include "backends/cpu/int8.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/planes.h"
#include "backends/cpu/quantised.h"
#include "backends/cpu/walk.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kParallelProducts = 65536;  // that are worth another thread
constexpr std::int64_t kPackingRows = 7;           // of x: what packing a panel takes the time of
constexpr std::int64_t kRowBytes = 384 << 10;      // of q that are multiplied by one panel after the other
constexpr std::int64_t kStoredRows = 48;           // whose sums a thread holds, where y isn't plain fp32

// What lies in the workspace: x, then what each thread has.
struct Layout {
  std::uint64_t q, floats;                    // bytes of each array of x, of which there are one and three
  std::uint64_t codes, panel_floats, stored;  // of each array of a thread, of which there are one, two and one
  std::uint64_t thread, total;
};

Layout lay_out(tern_packing packing, std::int64_t rows, std::int64_t k, int num_threads) {
  const std::int64_t groups = k / kInt8Block, parts = int8_packing(packing)->parts;
  const auto even = static_cast<std::uint64_t>((groups + 1) / 2 * 2);  // as two are packed at a time
  Layout l{};
  l.q = round_up(static_cast<std::uint64_t>(rows * k));
  l.floats = round_up(static_cast<std::uint64_t>(rows * groups * parts) * sizeof(float));
  l.codes = round_up(even * kInt8Block * kInt8Columns);
  l.panel_floats = round_up(even * static_cast<std::uint64_t>(parts) * kInt8Columns * sizeof(float));
  l.stored = round_up(kStoredRows * kInt8Columns * sizeof(float));
  l.thread = l.codes + 2 * l.panel_floats + l.stored;
  l.total = l.q + 3 * l.floats + static_cast<std::uint64_t>(num_threads) * l.thread;
  return l;
}

// The memory of a launch.
struct Room {
  Int8Rows x;
  std::byte* threads;
  Layout layout;

  [[nodiscard]] Int8Panel panel(int thread) const {
    std::byte* at = threads + static_cast<std::uint64_t>(thread) * layout.thread;
    auto* scales = reinterpret_cast<float*>(at + layout.codes);
    return {reinterpret_cast<std::uint8_t*>(at), scales,
            reinterpret_cast<float*>(at + layout.codes + layout.panel_floats)};
  }
  [[nodiscard]] float* stored(int thread) const {
    return reinterpret_cast<float*>(threads + static_cast<std::uint64_t>(thread + 1) * layout.thread - layout.stored);
  }
};

Room room_of(const KernelArgs& args, std::int64_t rows, std::int64_t k) {
  Room room{};
  const tern_packing packing = args[TERN_MATMUL_Q_W].desc.scheme.packing;
  room.layout = lay_out(packing, rows, k, args.pool->num_threads());
  std::byte* at = args.workspace;
  const auto take = [&at](std::uint64_t bytes) { return std::exchange(at, at + bytes); };
  room.x.q = reinterpret_cast<std::int8_t*>(take(room.layout.q));
  room.x.scales = reinterpret_cast<float*>(take(room.layout.floats));
  room.x.sums = reinterpret_cast<float*>(take(room.layout.floats));
  room.x.starts = reinterpret_cast<std::int32_t*>(take(room.layout.floats));
  room.x.groups = k / kInt8Block;
  room.x.parts = int8_packing(packing)->parts;
  room.threads = at;
  return room;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& attrs = desc.attrs<tern_matmul_q_attrs>();
  const auto& w = desc.arg(TERN_MATMUL_Q_W);
  const auto refuse = [&](std::string text) {
    reason = std::move(text);
    return false;
  };
  if (attrs.compute != TERN_COMPUTE_INT8) return refuse("it computes in int8 alone");
  if (int8_kernels(desc.target) == nullptr)
    return refuse(cat(target_name(desc.target), " has no dot products of bytes, which int8 is for"));
  if (attrs.transpose_w == 0) return refuse("int8 is for the forward product");
  if (w.rank != 2 || w.layout != 0 || !int8_packing(w.scheme.packing))
    return refuse(cat("int8 has no loops for a weight in ", packing_name(w.scheme.packing)));
  if (w.scheme.packing == TERN_PACK_ROW_INT8 && w.scheme.group_cols != w.shape[1])
    return refuse("int8 takes a weight of int8 with one scale for a row");
  if (packing_block(w.scheme.packing).elements == 0 && !reads_planes(w.scheme, w.shape[1], reason)) return false;
  if (w.shape[1] % kInt8Block != 0) return refuse(cat("w has rows of ", w.shape[1], " elements, no multiple of 32"));
  return fits_forward(desc, reason);
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_MATMUL_Q_X);
  return lay_out(desc.arg(TERN_MATMUL_Q_W).scheme.packing, x.shape[0], x.shape[1], desc.num_threads).total;
}

void quantise(const KernelArgs& args, const TileIo& io, const Int8Kernels& kernels, int offset, const Int8Rows& to) {
  const TensorView& x = args[TERN_MATMUL_Q_X];
  const std::int64_t k = to.groups * kInt8Block;
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(k, 1));
  args.pool->parallel_for(x.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    std::int32_t halves[2 * kTile / kInt8Block];
    for (std::int64_t r = begin; r < end; ++r) {
      const Int8Rows row = to.from(r);
      for (std::int64_t first = 0; first < k; first += kTile) {
        const std::int64_t n = std::min(kTile, k - first), g = first / kInt8Block;
        const float* from = io.load(x, r * x.stride(0) + first * x.stride(1), x.stride(1), n, buffer.data());
        kernels.quantise(from, n / kInt8Block, row.q + first, row.scales + g, halves);
        for (std::int64_t i = 0; i < n / kInt8Block * to.parts; ++i) {
          const std::int32_t sum = to.parts == 2 ? halves[i] : halves[2 * i] + halves[2 * i + 1];
          row.sums[g * to.parts + i] = row.scales[g + i / to.parts] * static_cast<float>(sum);
          row.starts[g * to.parts + i] = -offset * sum;
        }
      }
    }
  });
}

// Codes and scales of rows [column, column + n) of the weight.
void pack(const TileIo& io, const Int8Kernels& kernels, const QuantisedRows& w, const Int8Packing& by,
          std::int64_t column, int n, std::int64_t groups, const Int8Panel& to) {
  const tern_packing packing = w.scheme.packing;
  kernels.pack({packing, by.offset_for(kernels), w.planes[0] + column * w.row_bytes, w.row_bytes, n, groups}, to);
  if (packing != TERN_PACK_ROW_INT8) return;
  float buffer[kInt8Columns];
  const float* of_rows = row_scales(io, w, column, n, buffer);
  for (std::int64_t g = 0; g < groups; ++g) std::copy_n(of_rows, n, to.scales + g * kInt8Columns);
}

// Rows [first, first + tile.rows) of x by one panel, whose columns begin at `column` of y.
void multiply(const KernelArgs& args, const TileIo& io, void (*by_panel)(const Int8Tile&), Int8Tile tile,
              std::int64_t first, std::int64_t column, float* stored) {
  const TensorView& y = args[TERN_MATMUL_Q_Y];
  const bool accumulate = args.accumulates(TERN_MATMUL_Q_Y);
  const auto place = [&](std::int64_t row) { return row * y.stride(0) + column * y.stride(1); };
  if (y.dtype() == TERN_F32 && y.stride(1) == 1) {
    tile.accumulate = accumulate;
    tile.y = y.data<float>() + place(first);
    tile.ld = y.stride(0);
    return by_panel(tile);
  }
  tile.y = stored;
  tile.ld = kInt8Columns;
  for (std::int64_t end = first + tile.rows; first < end; first += tile.rows) {
    tile.rows = std::min(kStoredRows, end - first);
    by_panel(tile);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      io.store(y, place(first + r), y.stride(1), tile.columns, accumulate, stored + r * kInt8Columns);
    }
    tile.x = tile.x.from(tile.rows);
  }
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_MATMUL_Q_X], &bias = args[TERN_MATMUL_Q_BIAS];
  const QuantisedRows w = quantised_rows(args[TERN_MATMUL_Q_W]);
  const std::int64_t rows = x.dim(0), k = x.dim(1), columns = w.outputs;
  if (rows == 0 || columns == 0) return;
  const Int8Kernels& kernels = *int8_kernels(args.target);
  const Int8Packing packing = *int8_packing(w.scheme.packing);
  const TileIo io(args);
  const Room room = room_of(args, rows, k);
  const auto by_panel = packing.is_nibbles() ? kernels.multiply_nibbles : kernels.multiply_bytes;
  quantise(args, io, kernels, packing.offset_for(kernels), room.x);
  const std::int64_t at_once = std::max(kStoredRows, kRowBytes / std::max<std::int64_t>(k, 1));
  const std::int64_t panels = (columns + kInt8Columns - 1) / kInt8Columns;
  const std::int64_t products = (rows + kPackingRows) * std::max<std::int64_t>(k, 1) * kInt8Columns;
  const std::int64_t worth = std::max<std::int64_t>(1, kParallelProducts / products);
  args.pool->parallel_for(panels, worth, [&](std::int64_t begin, std::int64_t end, int thread) {
    alignas(64) float added[kInt8Columns] = {};
    const Int8Panel panel = room.panel(thread);
    for (std::int64_t first = 0; first < rows; first += at_once) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int64_t column = p * kInt8Columns;
        const int n = static_cast<int>(std::min<std::int64_t>(kInt8Columns, columns - column));
        pack(io, kernels, w, packing, column, n, k / kInt8Block, panel);
        Int8Tile tile{.x = room.x.from(first),
                      .rows = std::min(at_once, rows - first),
                      .w = panel,
                      .minima = packing.minima,
                      .columns = n};
        if (bias.present()) {
          const float* from = io.load(bias, column * bias.stride(0), bias.stride(0), n, added);
          if (from != added) std::copy_n(from, n, added);
          tile.bias = added;
        }
        multiply(args, io, by_panel, tile, first, column, room.stored(thread));
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MATMUL_Q, "int8", supports, workspace, nullptr, run}};

}  // namespace

KernelList matmul_int8_kernels() { return kKernels; }

}  // namespace tern::cpu
