// Products of each expert's rows, one expert after the other.
#include <algorithm>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/matmul_operand.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

// Rows of [rows, top_k, width] seen as [rows top_k, width].
bool lies_evenly(const tern_tensor_desc& desc) {
  return desc.shape[0] <= 1 || desc.strides[0] == desc.shape[1] * desc.strides[1];
}

std::int64_t num_experts(const tern_tensor_desc& offsets) { return offsets.shape[0] - 1; }

// The matrix of one expert as the right side of a product.
GemmOperand expert_operand(const TensorView& w, std::int64_t experts, std::int64_t expert, Target target,
                           bool forward) {
  if (w.desc.scheme.packing != TERN_PACK_NONE) {
    GemmOperand operand = weight_operand(w, target, forward);
    operand.rows.first = expert * (w.dim(0) / experts);
    return operand;
  }
  TensorView one = w;
  one.desc.rank = 2;
  for (int d = 0; d < 2; ++d) {
    one.desc.shape[d] = w.dim(d + 1);
    one.desc.strides[d] = w.stride(d + 1);
  }
  one.planes[0] = w.data<std::byte>() + expert * w.stride(0) * dtype_size(w.dtype());
  return weight_operand(one, target, forward);
}

// Rows from `first` on of [rows, top_k, width] as a matrix.
const std::byte* row_at(const TensorView& x, std::int64_t first) {
  return x.data<const std::byte>() + first * x.stride(1) * dtype_size(x.dtype());
}

struct Range {
  std::int64_t first, count;
};
Range rows_of(const TensorView& offsets, std::int64_t expert, std::int64_t rows, const char* what) {
  const auto at = [&](std::int64_t e) {
    return std::int64_t{offsets.data<const std::int32_t>()[e * offsets.stride(0)]};
  };
  require_index(at(expert), rows + 1, what);
  require_index(at(expert + 1) - at(expert), rows + 1 - at(expert), what);
  return {at(expert), at(expert + 1) - at(expert)};
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& attrs = desc.attrs<tern_grouped_matmul_attrs>();
  const auto &x = desc.arg(TERN_GROUPED_MATMUL_X), &w = desc.arg(TERN_GROUPED_MATMUL_W);
  const auto &y = desc.arg(TERN_GROUPED_MATMUL_Y), &offsets = desc.arg(TERN_GROUPED_MATMUL_OFFSETS);
  Check check(desc, reason);
  check.floats({TERN_GROUPED_MATMUL_X, TERN_GROUPED_MATMUL_Y, TERN_GROUPED_MATMUL_BIAS})
      .dtype(TERN_GROUPED_MATMUL_OFFSETS, TERN_I32)
      .rank(TERN_GROUPED_MATMUL_X, 3)
      .rank(TERN_GROUPED_MATMUL_Y, 3)
      .rank(TERN_GROUPED_MATMUL_BIAS, 2)
      .rank(TERN_GROUPED_MATMUL_OFFSETS, 1)
      .that(is_product_dtype(attrs.compute), "products are computed in f32, bf16 or f16");
  if (!check.ok()) return false;
  check.dim(TERN_GROUPED_MATMUL_Y, 0, x.shape[0]).dim(TERN_GROUPED_MATMUL_Y, 1, x.shape[1]);
  check.that(num_experts(offsets) >= 1, "offsets name no expert");
  check.that(lies_evenly(x) && lies_evenly(y), "rows of x or y lie unevenly");
  if (!check.ok()) return false;
  tern_tensor_desc one = w;
  if (w.scheme.packing == TERN_PACK_NONE) {
    check.rank(TERN_GROUPED_MATMUL_W, 3).dim(TERN_GROUPED_MATMUL_W, 0, num_experts(offsets));
    if (!check.ok()) return false;
    one.rank = 2;
    one.shape[0] = w.shape[1];
    one.shape[1] = w.shape[2];
  } else {
    one.shape[0] = w.shape[0] / num_experts(offsets);
    check.that(w.scheme.packing != TERN_PACK_AWQ_INT4 || one.shape[0] % 8 == 0,
               "an expert begins within a word of AWQ");
    if (!check.ok()) return false;
  }
  const bool forward = attrs.transpose_w != 0;
  if (!check_weight(one, desc.target, forward, "w", reason)) return false;
  return check
      .that(x.shape[2] == one.shape[forward ? 1 : 0] && y.shape[2] == one.shape[forward ? 0 : 1],
            "the shapes of x, w and y do not fit each other")
      .dim(TERN_GROUPED_MATMUL_BIAS, 0, num_experts(offsets))
      .dim(TERN_GROUPED_MATMUL_BIAS, 1, y.shape[2])
      .ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_GROUPED_MATMUL_X);
  return gemm_workspace(desc.target, x.shape[0] * x.shape[1], desc.arg(TERN_GROUPED_MATMUL_Y).shape[2], x.shape[2],
                        desc.attrs<tern_grouped_matmul_attrs>().compute, desc.num_threads);
}

// Zeros from row `first` on.
void clear_rows(const TensorView& y, std::int64_t first) {
  const std::int64_t size = dtype_size(y.dtype());
  for (std::int64_t r = first; r < y.dim(0) * y.dim(1); ++r) {
    for (std::int64_t c = 0; c < y.dim(2); ++c) {
      std::byte* at = y.data<std::byte>() + (r * y.stride(1) + c * y.stride(2)) * size;
      std::fill_n(at, size, std::byte{0});
    }
  }
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_grouped_matmul_attrs>();
  const TensorView &x = args[TERN_GROUPED_MATMUL_X], &w = args[TERN_GROUPED_MATMUL_W];
  const TensorView &bias = args[TERN_GROUPED_MATMUL_BIAS], &offsets = args[TERN_GROUPED_MATMUL_OFFSETS];
  const TensorView& y = args[TERN_GROUPED_MATMUL_Y];
  const std::int64_t experts = num_experts(offsets.desc), rows = x.dim(0) * x.dim(1);
  Gemm g;
  g.n = y.dim(2);
  g.k = x.dim(2);
  g.compute = attrs.compute;
  g.out.dtype = y.dtype();
  g.out.stride_m = y.stride(1);
  g.out.stride_n = y.stride(2);
  g.out.accumulate = args.accumulates(TERN_GROUPED_MATMUL_Y);
  std::int64_t end = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    const Range range = rows_of(offsets, e, rows, "grouped_matmul: offsets");
    end = range.first + range.count;
    if (range.count == 0) continue;
    g.m = range.count;
    g.a = dense_operand(x, row_at(x, range.first), 1, 2);
    g.b = expert_operand(w, experts, e, args.target, attrs.transpose_w != 0);
    g.out.data = const_cast<std::byte*>(row_at(y, range.first));
    if (bias.present()) {
      g.out.bias = bias.data<std::byte>() + e * bias.stride(0) * dtype_size(bias.dtype());
      g.out.bias_dtype = bias.dtype();
      g.out.bias_stride = bias.stride(1);
    }
    gemm(args.target, g, args.workspace, *args.pool);
  }
  if (!g.out.accumulate) clear_rows(y, end);
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto &dy = desc.arg(TERN_GROUPED_MATMUL_BACKWARD_DY), &x = desc.arg(TERN_GROUPED_MATMUL_BACKWARD_X);
  const std::int64_t experts = num_experts(desc.arg(TERN_GROUPED_MATMUL_BACKWARD_OFFSETS));
  const auto compute = desc.attrs<tern_grouped_matmul_backward_attrs>().compute;
  Check check(desc, reason);
  check.floats({TERN_GROUPED_MATMUL_BACKWARD_DY, TERN_GROUPED_MATMUL_BACKWARD_X})
      .dtype(TERN_GROUPED_MATMUL_BACKWARD_OFFSETS, TERN_I32)
      .dtype(TERN_GROUPED_MATMUL_BACKWARD_DW, TERN_F32)
      .dtype(TERN_GROUPED_MATMUL_BACKWARD_DBIAS, TERN_F32)
      .rank(TERN_GROUPED_MATMUL_BACKWARD_DY, 3)
      .rank(TERN_GROUPED_MATMUL_BACKWARD_X, 3)
      .rank(TERN_GROUPED_MATMUL_BACKWARD_DW, 3)
      .rank(TERN_GROUPED_MATMUL_BACKWARD_DBIAS, 2)
      .that(is_product_dtype(compute), "products are computed in f32, bf16 or f16");
  if (!check.ok()) return false;
  return check.dim(TERN_GROUPED_MATMUL_BACKWARD_X, 0, dy.shape[0])
      .dim(TERN_GROUPED_MATMUL_BACKWARD_X, 1, dy.shape[1])
      .dim(TERN_GROUPED_MATMUL_BACKWARD_DW, 0, experts)
      .dim(TERN_GROUPED_MATMUL_BACKWARD_DW, 1, dy.shape[2])
      .dim(TERN_GROUPED_MATMUL_BACKWARD_DW, 2, x.shape[2])
      .dim(TERN_GROUPED_MATMUL_BACKWARD_DBIAS, 0, experts)
      .dim(TERN_GROUPED_MATMUL_BACKWARD_DBIAS, 1, dy.shape[2])
      .that(lies_evenly(dy) && lies_evenly(x), "rows of dy or x lie unevenly")
      .ok();
}

std::uint64_t backward_workspace(const PlanDesc& desc) {
  const auto &dy = desc.arg(TERN_GROUPED_MATMUL_BACKWARD_DY), &x = desc.arg(TERN_GROUPED_MATMUL_BACKWARD_X);
  if (!desc.present(TERN_GROUPED_MATMUL_BACKWARD_DW)) return 0;
  return gemm_workspace(desc.target, dy.shape[2], x.shape[2], dy.shape[0] * dy.shape[1],
                        desc.attrs<tern_grouped_matmul_backward_attrs>().compute, desc.num_threads);
}

// dw = dy^T x of one expert's rows.
void weight_gradient(const KernelArgs& args, std::int64_t expert, const Range& range) {
  const TensorView &dy = args[TERN_GROUPED_MATMUL_BACKWARD_DY], &x = args[TERN_GROUPED_MATMUL_BACKWARD_X];
  const TensorView& dw = args[TERN_GROUPED_MATMUL_BACKWARD_DW];
  Gemm g;
  g.m = dw.dim(1);
  g.n = dw.dim(2);
  g.k = range.count;
  g.compute = args.attr<tern_grouped_matmul_backward_attrs>().compute;
  g.a = dense_operand(dy, row_at(dy, range.first), 2, 1);
  g.b = dense_operand(x, row_at(x, range.first), 2, 1);
  g.out.data = dw.data<float>() + expert * dw.stride(0);
  g.out.stride_m = dw.stride(1);
  g.out.stride_n = dw.stride(2);
  g.out.accumulate = args.accumulates(TERN_GROUPED_MATMUL_BACKWARD_DW);
  gemm(args.target, g, args.workspace, *args.pool);
}

void bias_gradient(const KernelArgs& args, std::int64_t expert, const Range& range) {
  const TensorView &dy = args[TERN_GROUPED_MATMUL_BACKWARD_DY], &dbias = args[TERN_GROUPED_MATMUL_BACKWARD_DBIAS];
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  alignas(64) TileBuffer buffer, sum;
  for (std::int64_t first = 0; first < dbias.dim(1); first += kTile) {
    const std::int64_t n = std::min(kTile, dbias.dim(1) - first);
    std::fill_n(sum.data(), n, 0.0F);
    for (std::int64_t r = range.first; r < range.first + range.count; ++r) {
      const float* row = io.load(dy, r * dy.stride(1) + first * dy.stride(2), dy.stride(2), n, buffer.data());
      math.add(sum.data(), row, static_cast<std::size_t>(n), sum.data());
    }
    io.store(dbias, expert * dbias.stride(0) + first * dbias.stride(1), dbias.stride(1), n,
             args.accumulates(TERN_GROUPED_MATMUL_BACKWARD_DBIAS), sum.data());
  }
}

void run_backward(const KernelArgs& args) {
  const TensorView &dy = args[TERN_GROUPED_MATMUL_BACKWARD_DY], &offsets = args[TERN_GROUPED_MATMUL_BACKWARD_OFFSETS];
  for (std::int64_t e = 0; e < num_experts(offsets.desc); ++e) {
    const Range range = rows_of(offsets, e, dy.dim(0) * dy.dim(1), "grouped_matmul_backward: offsets");
    if (args[TERN_GROUPED_MATMUL_BACKWARD_DW].present()) weight_gradient(args, e, range);
    if (args[TERN_GROUPED_MATMUL_BACKWARD_DBIAS].present()) bias_gradient(args, e, range);
  }
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_GROUPED_MATMUL, "panels", supports, workspace, nullptr, run},
    {TERN_OP_GROUPED_MATMUL_BACKWARD, "panels", supports_backward, backward_workspace, nullptr, run_backward}};

}  // namespace

KernelList grouped_matmul_kernels() { return kKernels; }

}  // namespace tern::cpu
