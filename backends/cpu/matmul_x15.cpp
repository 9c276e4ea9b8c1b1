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
constexpr std::int64_t kRowsAtOnce = 16;
constexpr std::int64_t kTogether = 4;  // a thread's columns are a multiple: one row takes so many side by side

// What rows of x become, at the beginning of the workspace: an array of blocks and four of floats. Then the sums.
struct Layout {
  std::uint64_t blocks, floats, total;  // bytes of the first, of each of the four, and of all
};

Layout lay_out(std::int64_t rows, std::int64_t k, int num_threads) {
  const auto count = static_cast<std::uint64_t>(rows * (k / kX15Block));
  Layout l{round_up(count * sizeof(X15Rows::Block)), round_up(count * sizeof(float)), 0};
  l.total = l.blocks + 4 * l.floats + static_cast<std::uint64_t>(num_threads) * kRowsAtOnce * kColumns * sizeof(float);
  return l;
}

X15Rows rows_at(std::byte* workspace, const Layout& l, std::int64_t groups, std::int64_t rows) {
  const auto floats = [&](int array) {
    return reinterpret_cast<float*>(workspace + l.blocks + static_cast<std::uint64_t>(array) * l.floats);
  };
  return {reinterpret_cast<X15Rows::Block*>(workspace),
          floats(0),
          floats(1),
          {floats(2), floats(3)},
          groups,
          static_cast<int>(rows)};
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

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_MATMUL_Q_X], &w = args[TERN_MATMUL_Q_W], &bias = args[TERN_MATMUL_Q_BIAS];
  const std::int64_t rows = x.dim(0), k = x.dim(1), columns = w.dim(0), groups = k / kX15Block;
  if (rows == 0 || columns == 0) return;
  const X15Kernels& kernels = x15_kernels(args.target);
  const TileIo io(args);
  const Layout layout = lay_out(rows, k, args.pool->num_threads());
  const X15Rows all = rows_at(args.workspace, layout, groups, rows);
  const std::int64_t grain = std::max<std::int64_t>(1, 4 * kParallelFrom / std::max<std::int64_t>(k, 1));
  args.pool->parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t at = 0; at < k; at += kTile) {
        const std::int64_t n = std::min(kTile, k - at);
        const float* values = io.load(x, r * x.stride(0) + at * x.stride(1), x.stride(1), n, buffer.data());
        kernels.quantise(values, r * groups + at / kX15Block, n / kX15Block, all);
      }
    }
  });
  const BlockSize block = packing_block(w.desc.scheme.packing);
  const std::int64_t row_bytes = k / block.elements * block.bytes;
  const auto* data = w.data<const std::uint8_t>();
  const std::int64_t fours = (columns + kTogether - 1) / kTogether;
  const std::int64_t worth =
      std::max<std::int64_t>(1, kParallelBytes / std::max<std::int64_t>(kTogether * row_bytes, 1));
  args.pool->parallel_for(fours, worth, [&](std::int64_t begin, std::int64_t end, int thread) {
    auto* sums =
        reinterpret_cast<float*>(args.workspace + layout.blocks + 4 * layout.floats) + thread * kRowsAtOnce * kColumns;
    alignas(64) TileBuffer buffer;
    for (std::int64_t first = begin * kTogether; first < std::min(end * kTogether, columns); first += kColumns) {
      const std::int64_t n = std::min({kColumns, end * kTogether - first, columns - first});
      const float* added =
          bias.present() ? io.load(bias, first * bias.stride(0), bias.stride(0), n, buffer.data()) : nullptr;
      for (std::int64_t row = 0; row < rows; row += kRowsAtOnce) {
        const auto most = static_cast<int>(std::min(kRowsAtOnce, rows - row));
        kernels.multiply(w.desc.scheme.packing, data + first * row_bytes, row_bytes, n, all.from(row, most), sums, n);
        store(args, io, added, row, most, first, n, sums);
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MATMUL_Q, "x15", supports, workspace, nullptr, run}};

}  // namespace

KernelList matmul_x15_kernels() { return kKernels; }

}  // namespace tern::cpu
