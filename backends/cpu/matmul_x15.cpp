// matmul_q in x15: rows of x become whole numbers once, then each thread takes rows of the weight as they are stored.
#include <algorithm>
#include <utility>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/planes.h"
#include "backends/cpu/quantised.h"
#include "backends/cpu/walk.h"
#include "backends/cpu/x15.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kParallelBytes = 16384;  // of the weight that are worth another thread
constexpr std::int64_t kColumns = 512;          // whose sums a thread holds at once, for rows_at_once of x
constexpr std::int64_t kRowsAtOnce = kX15MostLanes;
constexpr std::int64_t kTogether = 8;          // a thread's columns are a multiple: so many are taken side by side
constexpr std::int64_t kAcrossTogether = 128;  // the same of weights that lie across
static_assert(kColumns <= kAcrossColumns);

// What rows of x become, at the beginning of the workspace: an array of blocks and four of floats, then the same with
// rows side by side. Then x in the order of the weight's inputs, where that is another, and each thread's sums.
struct Layout {
  std::uint64_t blocks, floats, sideways, sideways_floats, ordered, sums, total;  // bytes of each array, and of all
};

bool is_in_order(const tern_scheme& scheme) {
  return scheme.packing != TERN_PACK_GPTQ_INT4 || (scheme.flags & TERN_SCHEME_IN_ORDER) != 0;
}

Layout lay_out(const tern_scheme& scheme, std::int64_t rows, std::int64_t k, int num_threads) {
  const std::int64_t groups = k / kX15Block;
  const auto count = static_cast<std::uint64_t>(rows * groups);
  const auto padded = static_cast<std::uint64_t>((rows + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce * groups);
  Layout l{round_up(count * sizeof(X15Rows::Block)),
           round_up(count * sizeof(float)),
           round_up(padded * sizeof(X15Rows::Block)),
           round_up(padded * sizeof(float)),
           is_in_order(scheme) ? 0 : round_up(static_cast<std::uint64_t>(rows * k) * sizeof(float)),
           static_cast<std::uint64_t>(num_threads) * kRowsAtOnce * kColumns * sizeof(float),
           0};
  l.total = l.blocks + l.sideways + 4 * (l.floats + l.sideways_floats) + l.ordered + l.sums;
  return l;
}

// Everything that a launch works with; `sideways` is of the whole workspace's rows from a multiple of kRowsAtOnce on.
struct Rows {
  X15Rows all;
  X15Lanes sideways;
  float* ordered;
  float* sums;
  const X15Kernels* kernels;
  bool one_way;  // rows are multiplied alike, however many they are

  [[nodiscard]] int count(std::int64_t first) const {
    return static_cast<int>(std::min<std::int64_t>(kRowsAtOnce, all.rows - first));
  }
  // How rows [first, first + count(first)) are multiplied; null: one by one.
  [[nodiscard]] const X15Sideways* way(std::int64_t first) const {
    const int rows = count(first);
    if (one_way || rows <= kX15Direct || kernels->half.lanes == 0) return nullptr;
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
  const Layout l = lay_out(args[TERN_MATMUL_Q_W].desc.scheme, rows, k, args.pool->num_threads());
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
  r.ordered = floats(l.ordered);
  r.sums = floats(l.sums);
  r.kernels = &x15_kernels(args.target);
  r.one_way = (args.needs & TERN_NEED_ROW_INVARIANT) != 0 || lies_across(args[TERN_MATMUL_Q_W].desc.scheme.packing);
  return r;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& attrs = desc.attrs<tern_matmul_q_attrs>();
  const auto& w = desc.arg(TERN_MATMUL_Q_W);
  const auto refuse = [&](std::string text) {
    reason = std::move(text);
    return false;
  };
  if (attrs.compute != TERN_COMPUTE_X15) return refuse("it computes in x15 alone");
  if (attrs.transpose_w == 0) return refuse("x15 is for the forward product");
  if (w.rank != 2 || w.layout != 0 || !(x15_reads(w.scheme.packing) || lies_across(w.scheme.packing)))
    return refuse(cat("x15 has no loops for a weight in ", packing_name(w.scheme.packing)));
  if (packing_block(w.scheme.packing).elements == 0 && !reads_planes(w.scheme, w.shape[1], reason)) return false;
  if (w.scheme.packing == TERN_PACK_ROW_INT8 && w.scheme.group_cols != w.shape[1])
    return refuse("x15 takes int8 with one scale for a row");
  return fits_forward(desc, reason);
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_MATMUL_Q_X);
  return lay_out(desc.arg(TERN_MATMUL_Q_W).scheme, x.shape[0], x.shape[1], desc.num_threads).total;
}

// Columns [first, first + n) of rows [row, row + rows), from sums [rows][n]. `scales`: of columns, or null.
void store(const KernelArgs& args, const TileIo& io, const float* scales, const float* bias, std::int64_t row,
           std::int64_t rows, std::int64_t first, std::int64_t n, float* sums) {
  const TensorView& y = args[TERN_MATMUL_Q_Y];
  for (std::int64_t r = 0; r < rows; ++r) {
    float* line = sums + r * n;
    for (std::int64_t c = 0; scales != nullptr && c < n; ++c) line[c] *= scales[c];
    if (bias != nullptr) gemm_kernels(args.target).add(bias, line, n);
    io.store(y, (row + r) * y.stride(0) + first * y.stride(1), y.stride(1), n, args.accumulates(TERN_MATMUL_Q_Y), line);
  }
}

// x with each input where the weight has it.
TensorView ordered(const KernelArgs& args, const TileIo& io, const std::int32_t* order, float* to) {
  const TensorView& x = args[TERN_MATMUL_Q_X];
  const std::int64_t k = x.dim(1);
  args.pool->parallel_for(
      x.dim(0), std::max<std::int64_t>(1, kParallelFrom / k), [&](std::int64_t begin, std::int64_t end, int) {
        alignas(64) TileBuffer buffer;
        for (std::int64_t r = begin; r < end; ++r) {
          for (std::int64_t first = 0; first < k; first += kTile) {
            const std::int64_t n = std::min(kTile, k - first);
            const float* from = io.load(x, r * x.stride(0) + first * x.stride(1), x.stride(1), n, buffer.data());
            for (std::int64_t i = 0; i < n; ++i) {
              require_index(order[first + i], k, "matmul_q: w: permutation");
              to[r * k + order[first + i]] = from[i];
            }
          }
        }
      });
  TensorView out = x;
  out.desc.dtype = TERN_F32;
  out.desc.strides[0] = k;
  out.desc.strides[1] = 1;
  out.planes[0] = to;
  return out;
}

// Rows of x as whole numbers, some groups of all rows at a time.
void quantise(const KernelArgs& args, const TileIo& io, const TensorView& x, const Rows& to) {
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

// Columns [first, first + n) of the rows of x from `row` on, at most kRowsAtOnce, as sums [rows][n].
void multiply(const QuantisedRows& w, Target target, const Rows& given, std::int64_t row, std::int64_t first,
              std::int64_t n, float* sums) {
  const X15Rows rows = given.all.from(row, given.count(row));
  if (lies_across(w.scheme.packing)) return plane_kernels(target).multiply(w.across(target), first, n, rows, sums, n);
  const std::uint8_t* part = w.planes[0] + first * w.row_bytes;
  if (const X15Sideways* way = given.way(row)) {
    way->multiply(w.scheme.packing, part, w.row_bytes, n, given.lanes(row), sums, n);
  } else {
    given.kernels->multiply(w.scheme.packing, part, w.row_bytes, n, rows, sums, n);
  }
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_MATMUL_Q_X], &bias = args[TERN_MATMUL_Q_BIAS];
  const QuantisedRows w = quantised_rows(args[TERN_MATMUL_Q_W]);
  const std::int64_t rows = x.dim(0), k = x.dim(1), columns = w.outputs;
  if (rows == 0 || columns == 0) return;
  const TileIo io(args);
  const Rows given = rows_at(args, rows, k);
  const std::int32_t* order = w.order();
  if (k > 0)
    quantise(args, io, order != nullptr ? ordered(args, io, order, given.ordered) : args[TERN_MATMUL_Q_X], given);
  const bool across = lies_across(w.scheme.packing);
  const std::int64_t together = across ? kAcrossTogether : kTogether;
  const std::int64_t parts = (columns + together - 1) / together;
  const std::int64_t part_bytes =
      across ? together * k / (32 / w.across(args.target).bits()) * 4 : together * w.row_bytes;
  const std::int64_t worth = std::max<std::int64_t>(1, kParallelBytes / std::max<std::int64_t>(part_bytes, 1));
  args.pool->parallel_for(parts, worth, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* sums = given.sums + thread * kRowsAtOnce * kColumns;
    alignas(64) TileBuffer added_buffer, scale_buffer;
    for (std::int64_t first = begin * together; first < std::min(end * together, columns); first += kColumns) {
      const std::int64_t n = std::min({kColumns, end * together - first, columns - first});
      const float* added =
          bias.present() ? io.load(bias, first * bias.stride(0), bias.stride(0), n, added_buffer.data()) : nullptr;
      const float* scales = w.scheme.packing == TERN_PACK_ROW_INT8 ? row_scales(io, w, first, n, scale_buffer.data())
                                                                   : nullptr;  // those that are left out of the sums
      for (std::int64_t row = 0; row < rows; row += kRowsAtOnce) {
        if (k > 0) {
          multiply(w, args.target, given, row, first, n, sums);
        } else {
          std::fill_n(sums, given.count(row) * n, 0.0F);
        }
        store(args, io, scales, added, row, given.count(row), first, n, sums);
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MATMUL_Q, "x15", supports, workspace, nullptr, run}};

}  // namespace

KernelList matmul_x15_kernels() { return kKernels; }

}  // namespace tern::cpu
