// matmul_q of few rows in fp32 by weights whose planes lie along: fp8, nf4, fp4 and int8. Each register of the weight
// is expanded once and multiplied by every row where it is. A row is summed in so many parts as a register has, which
// the products of many rows don't do: so it isn't for those that need equal bits.
#include <algorithm>
#include <utility>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/planes.h"
#include "backends/cpu/walk.h"
#include "base/dtype.h"
#include "base/nf4.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kParallelBytes = 16384;  // of the weight that are worth another thread
constexpr std::int64_t kColumns = 64;           // that a thread takes at a time

// Floats of x, then of each thread: scales of its columns, and its sums.
struct Layout {
  std::int64_t x, scales, sums;
};
Layout lay_out(std::int64_t rows, std::int64_t k) {
  return {rows * k, kColumns * (k / kAlongStep), kFewRows * kColumns};
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& attrs = desc.attrs<tern_matmul_q_attrs>();
  const auto &x = desc.arg(TERN_MATMUL_Q_X), &w = desc.arg(TERN_MATMUL_Q_W);
  const auto &bias = desc.arg(TERN_MATMUL_Q_BIAS), &y = desc.arg(TERN_MATMUL_Q_Y);
  const auto refuse = [&](std::string text) {
    reason = std::move(text);
    return false;
  };
  const tern_packing packing = w.scheme.packing;
  if (attrs.compute != TERN_F32 || attrs.transpose_w == 0) return refuse("it's for the forward product in f32");
  if ((desc.op.needs & TERN_NEED_ROW_INVARIANT) != 0) return refuse("few rows are summed in another order than many");
  if (w.rank != 2 || w.layout != 0 || packing == TERN_PACK_NONE || packing_block(packing).elements != 0 ||
      lies_across(packing))
    return refuse(cat("it's for weights in planes along, and this is ", packing_name(packing)));
  if (!reads_planes(w.scheme, w.shape[1], reason)) return false;
  if (w.shape[1] == 0 || w.scheme.group_cols % kAlongStep != 0) return refuse("groups are no multiple of 32");
  if (x.rank != 2 || x.shape[0] > kFewRows) return refuse(cat("it's for up to ", kFewRows, " rows"));
  if (!Check(desc, reason).floats({TERN_MATMUL_Q_X, TERN_MATMUL_Q_BIAS, TERN_MATMUL_Q_Y}).ok()) return false;
  if (y.rank != 2 || x.shape[0] != y.shape[0] || x.shape[1] != w.shape[1] || y.shape[1] != w.shape[0] ||
      (bias.rank != 0 && (bias.rank != 1 || bias.shape[0] != w.shape[0])))
    return refuse("the shapes of x, w, bias and y do not fit each other");
  return true;
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_MATMUL_Q_X);
  const Layout l = lay_out(x.shape[0], x.shape[1]);
  return static_cast<std::uint64_t>(l.x + desc.num_threads * (l.scales + l.sums)) * sizeof(float);
}

// Rows of x in fp32, in the order that FewRows says.
void widen(const TileIo& io, const TensorView& x, bool pairs, float* to) {
  alignas(64) TileBuffer buffer;
  const std::int64_t k = x.dim(1);
  for (std::int64_t r = 0; r < x.dim(0); ++r) {
    for (std::int64_t first = 0; first < k; first += kTile) {
      const std::int64_t n = std::min(kTile, k - first);
      const float* from = io.load(x, r * x.stride(0) + first * x.stride(1), x.stride(1), n, buffer.data());
      float* row = to + r * k + first;
      if (!pairs) {
        std::copy_n(from, n, row);
        continue;
      }
      for (std::int64_t step = 0; step < n; step += kAlongStep) {
        for (std::int64_t i = 0; i < kAlongStep; ++i) row[step + i / 2 + i % 2 * kAlongStep / 2] = from[step + i];
      }
    }
  }
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_MATMUL_Q_X], &bias = args[TERN_MATMUL_Q_BIAS], &y = args[TERN_MATMUL_Q_Y];
  const QuantisedRows w = quantised_rows(args[TERN_MATMUL_Q_W]);
  const std::int64_t rows = x.dim(0), k = x.dim(1), columns = w.outputs;
  if (rows == 0 || columns == 0) return;
  const TileIo io(args);
  const Layout l = lay_out(rows, k);
  auto* floats = reinterpret_cast<float*>(args.workspace);
  widen(io, x, is_levels4(w.scheme.packing), floats);
  const FewRows given{floats, k, static_cast<int>(rows)};
  const std::int64_t steps = k / kAlongStep;
  const std::int64_t together = std::max(w.scheme.group_rows, 1);  // outputs that share scales
  const std::int64_t worth = std::max<std::int64_t>(1, kParallelBytes / w.row_bytes);
  args.pool->parallel_for(columns, worth, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* scales = floats + l.x + thread * (l.scales + l.sums);
    float* sums = scales + l.scales;
    alignas(64) TileBuffer added_buffer;
    for (std::int64_t first = begin; first < end; first += kColumns) {
      const std::int64_t n = std::min(kColumns, end - first);
      for (std::int64_t c = 0; c < n; ++c) {
        float* to = scales + c * steps;
        if (c > 0 && (first + c) % together != 0) {
          std::copy_n(to - steps, steps, to);
        } else {
          along_scales(args.target, w, first + c, to);
        }
      }
      plane_kernels(args.target).multiply_along(w, scales, first, n, given, sums, kColumns);
      const float* added =
          bias.present() ? io.load(bias, first * bias.stride(0), bias.stride(0), n, added_buffer.data()) : nullptr;
      for (std::int64_t r = 0; r < rows; ++r) {
        if (added != nullptr) gemm_kernels(args.target).add(added, sums + r * kColumns, n);
        io.store(y, r * y.stride(0) + first * y.stride(1), y.stride(1), n, args.accumulates(TERN_MATMUL_Q_Y),
                 sums + r * kColumns);
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MATMUL_Q, "few_rows", supports, workspace, nullptr, run}};

}  // namespace

KernelList few_rows_kernels() { return kKernels; }

}  // namespace tern::cpu
