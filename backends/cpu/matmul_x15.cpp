// matmul_q in x15: rows of x become whole numbers once, then each thread takes rows of the weight as they are stored.
#include <algorithm>
#include <utility>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"
#include "backends/cpu/x15.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kParallelBytes = 16384;  // of the weight that are worth another thread
constexpr std::int64_t kColumns = 512;          // whose sums a thread holds at once, for rows_at_once of x
constexpr std::int64_t kRowsAtOnce = kX15MostLanes;
constexpr std::int64_t kTogether = 8;  // a thread's columns are a multiple: so many are taken side by side

// What rows of x become, at the beginning of the workspace: an array of blocks and four of floats, then the same with
// rows side by side. Then each thread's sums.
struct Layout {
  std::uint64_t blocks, floats, sideways, sideways_floats, sums, total;  // bytes of each array, of all sums, of all
};

Layout lay_out(std::int64_t rows, std::int64_t k, int num_threads) {
  const std::int64_t groups = k / kX15Block;
  const auto count = static_cast<std::uint64_t>(rows * groups);
  const auto padded = static_cast<std::uint64_t>((rows + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce * groups);
  Layout l{round_up(count * sizeof(X15Rows::Block)),
           round_up(count * sizeof(float)),
           round_up(padded * sizeof(X15Rows::Block)),
           round_up(padded * sizeof(float)),
           static_cast<std::uint64_t>(num_threads) * kRowsAtOnce * kColumns * sizeof(float),
           0};
  l.total = l.blocks + l.sideways + 4 * (l.floats + l.sideways_floats) + l.sums;
  return l;
}

// Everything that a launch works with; `sideways` is of the whole workspace's rows from a multiple of kRowsAtOnce on.
struct Rows {
  X15Rows all;
  X15Lanes sideways;
  float* sums;
  const X15Kernels* kernels;
  bool row_invariant;

  [[nodiscard]] int count(std::int64_t first) const {
    return static_cast<int>(std::min<std::int64_t>(kRowsAtOnce, all.rows - first));
  }
  // How rows [first, first + count(first)) are multiplied; null: one by one.
  [[nodiscard]] const X15Sideways* way(std::int64_t first) const {
    const int rows = count(first);
    if (row_invariant || rows <= kX15Direct || kernels->half.lanes == 0) return nullptr;
    return rows > kernels->half.lanes ? &kernels->full : &kernels->half;
  }
  [[nodiscard]] X15Lanes lanes(std::int64_t first) const {
    const std::int64_t at = first * all.groups;
    const int rows = count(first), lanes = way(first)->lanes;
    return {sideways.pairs + at * 16,
            sideways.scales + at,
            sideways.sums + at,
            {sideways.halves[0] + at, sideways.halves[1] + at},
            all.groups,
            rows,
            (rows + lanes - 1) / lanes * lanes};
  }
};

Rows rows_at(const KernelArgs& args, std::int64_t rows, std::int64_t k) {
  const Layout l = lay_out(rows, k, args.pool->num_threads());
  std::byte* at = args.workspace;
  const auto take = [&at](std::uint64_t bytes) {
    std::byte* begin = at;
    at += bytes;
    return begin;
  };
  const auto floats = [&](std::uint64_t bytes) { return reinterpret_cast<float*>(take(bytes)); };
  Rows r{};
  r.all.blocks = reinterpret_cast<X15Rows::Block*>(take(l.blocks));
  for (float** array : {&r.all.scales, &r.all.sums, &r.all.halves[0], &r.all.halves[1]}) *array = floats(l.floats);
  r.all.groups = k / kX15Block;
  r.all.rows = static_cast<int>(rows);
  r.sideways.pairs = reinterpret_cast<std::int32_t*>(take(l.sideways));
  for (float** array : {&r.sideways.scales, &r.sideways.sums, &r.sideways.halves[0], &r.sideways.halves[1]}) {
    *array = floats(l.sideways_floats);
  }
  r.sums = floats(l.sums);
  r.kernels = &x15_kernels(args.target);
  r.row_invariant = (args.needs & TERN_NEED_ROW_INVARIANT) != 0;
  return r;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& attrs = desc.attrs<tern_matmul_q_attrs>();
  const auto& x = desc.arg(TERN_MATMUL_Q_X);
  const auto& w = desc.arg(TERN_MATMUL_Q_W);
  const auto& bias = desc.arg(TERN_MATMUL_Q_BIAS);
  const auto& y = desc.arg(TERN_MATMUL_Q_Y);
  const auto refuse = [&](std::string text) {
    reason = std::move(text);
    return false;
  };
  if (attrs.compute != TERN_COMPUTE_X15) return refuse("it computes in x15 alone");
  if (attrs.transpose_w == 0) return refuse("x15 is for the forward product");
  if (w.rank != 2 || w.layout != 0 || !x15_reads(w.scheme.packing))
    return refuse(cat("x15 has no loops for a weight in ", packing_name(w.scheme.packing)));
  if (!Check(desc, reason).floats({TERN_MATMUL_Q_X, TERN_MATMUL_Q_BIAS, TERN_MATMUL_Q_Y}).ok()) return false;
  const std::int64_t k = w.shape[1];
  if (k % packing_block(w.scheme.packing).elements != 0)
    return refuse(cat("w has rows of ", k, " elements, which is no whole number of blocks"));
  if (x.rank != 2 || y.rank != 2 || x.shape[0] != y.shape[0] || x.shape[1] != k || y.shape[1] != w.shape[0] ||
      (bias.rank != 0 && (bias.rank != 1 || bias.shape[0] != w.shape[0]))) {
    return refuse("the shapes of x, w, bias and y do not fit each other");
  }
  return true;
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_MATMUL_Q_X);
  return lay_out(x.shape[0], x.shape[1], desc.num_threads).total;
}

// Columns [first, first + n) of rows [row, row + rows), from sums [rows][n].
void store(const KernelArgs& args, const TileIo& io, const float* bias, std::int64_t row, std::int64_t rows,
           std::int64_t first, std::int64_t n, float* sums) {
  const TensorView& y = args[TERN_MATMUL_Q_Y];
  for (std::int64_t r = 0; r < rows; ++r) {
    float* line = sums + r * n;
    if (bias != nullptr) gemm_kernels(args.target).add(bias, line, n);
    io.store(y, (row + r) * y.stride(0) + first * y.stride(1), y.stride(1), n, args.accumulates(TERN_MATMUL_Q_Y), line);
  }
}

// Rows of x as whole numbers, some groups of all rows at a time.
void quantise(const KernelArgs& args, const TileIo& io, const Rows& to) {
  const TensorView& x = args[TERN_MATMUL_Q_X];
  const std::int64_t rows = x.dim(0), groups = to.all.groups;
  const std::int64_t grain = std::max<std::int64_t>(1, 4 * kParallelFrom / (rows * kX15Block));
  args.pool->parallel_for(groups, grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    constexpr std::int64_t kGroups = kTile / kX15Block;
    for (std::int64_t g = begin; g < end; g += kGroups) {
      const std::int64_t n = std::min(kGroups, end - g), at = g * kX15Block;
      for (std::int64_t r = 0; r < rows; ++r) {
        const float* values = io.load(x, r * x.stride(0) + at * x.stride(1), x.stride(1), n * kX15Block, buffer.data());
        to.kernels->quantise(values, r * groups + g, n, to.all);
      }
    }
    for (std::int64_t first = 0; first < rows; first += kRowsAtOnce) {
      if (const X15Sideways* way = to.way(first)) {
        way->interleave(to.all.from(first, to.count(first)), begin, end - begin, to.lanes(first));
      }
    }
  });
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_MATMUL_Q_X], &w = args[TERN_MATMUL_Q_W], &bias = args[TERN_MATMUL_Q_BIAS];
  const std::int64_t rows = x.dim(0), k = x.dim(1), columns = w.dim(0);
  if (rows == 0 || columns == 0) return;
  const TileIo io(args);
  const Rows given = rows_at(args, rows, k);
  quantise(args, io, given);
  const tern_packing packing = w.desc.scheme.packing;
  const BlockSize block = packing_block(packing);
  const std::int64_t row_bytes = k / block.elements * block.bytes;
  const auto* data = w.data<const std::uint8_t>();
  const std::int64_t parts = (columns + kTogether - 1) / kTogether;
  const std::int64_t worth =
      std::max<std::int64_t>(1, kParallelBytes / std::max<std::int64_t>(kTogether * row_bytes, 1));
  args.pool->parallel_for(parts, worth, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* sums = given.sums + thread * kRowsAtOnce * kColumns;
    alignas(64) TileBuffer buffer;
    for (std::int64_t first = begin * kTogether; first < std::min(end * kTogether, columns); first += kColumns) {
      const std::int64_t n = std::min({kColumns, end * kTogether - first, columns - first});
      const std::uint8_t* part = data + first * row_bytes;
      const float* added =
          bias.present() ? io.load(bias, first * bias.stride(0), bias.stride(0), n, buffer.data()) : nullptr;
      for (std::int64_t row = 0; row < rows; row += kRowsAtOnce) {
        const int most = given.count(row);
        if (const X15Sideways* way = given.way(row)) {
          way->multiply(packing, part, row_bytes, n, given.lanes(row), sums, n);
        } else {
          given.kernels->multiply(packing, part, row_bytes, n, given.all.from(row, most), sums, n);
        }
        store(args, io, added, row, most, first, n, sums);
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MATMUL_Q, "x15", supports, workspace, nullptr, run}};

}  // namespace

KernelList matmul_x15_kernels() { return kKernels; }

}  // namespace tern::cpu
