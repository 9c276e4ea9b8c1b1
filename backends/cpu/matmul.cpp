// matmul and matmul_q.
#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/kernels.h"
#include "backends/cpu/matmul_operand.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

bool refuse(std::string& reason, std::string text) {
  reason = std::move(text);
  return false;
}

bool check_dense(const tern_tensor_desc& desc, const char* name, std::string& reason) {
  if (is_product_dtype(desc.dtype)) return true;
  return refuse(reason, cat(name, " is ", dtype_name(desc.dtype), ", products take f32, bf16 and f16"));
}

struct MatmulSizes {
  std::int64_t batch, m, n, k;
};

// Works for TensorView::desc and for the desc of a plan alike.
template <typename Get>
MatmulSizes matmul_sizes(const Get& arg, const tern_matmul_attrs& attrs) {
  const tern_tensor_desc& a = arg(TERN_MATMUL_A);
  const tern_tensor_desc& out = arg(TERN_MATMUL_OUT);
  const int r = out.rank;
  return {r == 3 ? out.shape[0] : 1, out.shape[r - 2], out.shape[r - 1],
          a.shape[a.rank - (attrs.transpose_a != 0 ? 2 : 1)]};
}

bool matmul_supports(const PlanDesc& desc, std::string& reason) {
  const auto& attrs = desc.attrs<tern_matmul_attrs>();
  const auto& a = desc.arg(TERN_MATMUL_A);
  const auto& b = desc.arg(TERN_MATMUL_B);
  const auto& bias = desc.arg(TERN_MATMUL_BIAS);
  const auto& out = desc.arg(TERN_MATMUL_OUT);
  if (!is_product_dtype(attrs.compute)) return refuse(reason, "products are computed in f32, bf16 or f16");
  if (!check_dense(a, "a", reason) || !check_dense(b, "b", reason) || !check_dense(out, "out", reason)) return false;
  if (out.rank != 2 && out.rank != 3) return refuse(reason, "out has a rank other than 2 and 3");
  for (const auto* side : {&a, &b}) {
    if (side->rank != 2 && side->rank != out.rank) return refuse(reason, "a, b and out differ in rank");
  }
  const MatmulSizes s = matmul_sizes(
      [&](int i) -> const auto& { return desc.arg(i); }, attrs);
  const bool ta = attrs.transpose_a != 0, tb = attrs.transpose_b != 0;
  if (a.shape[a.rank - (ta ? 1 : 2)] != s.m || b.shape[b.rank - (tb ? 2 : 1)] != s.n ||
      b.shape[b.rank - (tb ? 1 : 2)] != s.k) {
    return refuse(reason, "the shapes of a, b and out do not fit each other");
  }
  for (const auto* side : {&a, &b}) {
    if (side->rank == 3 && side->shape[0] != s.batch) return refuse(reason, "a, b and out differ in batch");
  }
  if (bias.rank != 0 && (!check_dense(bias, "bias", reason) || bias.rank != 1 || bias.shape[0] != s.n)) {
    return refuse(reason, reason.empty() ? "bias does not have the shape [n]" : reason);
  }
  if (b.layout == 0) return true;
  if (b.rank != 2) return refuse(reason, "a batched b cannot be in a private layout");
  return check_weight(b, desc.target, tb, "b", reason);
}

std::uint64_t matmul_workspace(const PlanDesc& desc) {
  const auto& attrs = desc.attrs<tern_matmul_attrs>();
  const MatmulSizes s = matmul_sizes(
      [&](int i) -> const auto& { return desc.arg(i); }, attrs);
  // Either way round: see turns.
  return std::max(gemm_workspace(desc.target, s.m, s.n, s.k, attrs.compute, desc.num_threads),
                  gemm_workspace(desc.target, s.n, s.m, s.k, attrs.compute, desc.num_threads));
}

void set_bias(GemmOutput& out, const TensorView& bias) {
  if (!bias.present()) return;
  out.bias = bias.planes[0];
  out.bias_dtype = bias.dtype();
  out.bias_stride = bias.stride(0);
}

const void* batch_of(const TensorView& tensor, std::int64_t i) {
  const std::int64_t step = tensor.desc.rank == 3 ? tensor.stride(0) : 0;
  return tensor.data<std::byte>() + i * step * dtype_size(tensor.dtype());
}

// Few columns beside many rows that lie along k (the gradient of a low-rank factor): as out^T = b^T a^T the wide side
// is spread over panels as it lies and the narrow one fills whole registers. Sums keep their order, so no bit changes.
constexpr std::int64_t kFewColumns = 16;

bool turns(const TensorView& b, const MatmulSizes& s, bool transpose_a, bool has_bias) {
  return transpose_a && !has_bias && b.desc.layout == 0 && s.n <= kFewColumns && s.m >= 4 * s.n;
}

void turn(Gemm& g) {
  std::swap(g.m, g.n);
  std::swap(g.a, g.b);
  std::swap(g.out.stride_m, g.out.stride_n);
}

void matmul_run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_matmul_attrs>();
  const TensorView& a = args[TERN_MATMUL_A];
  const TensorView& b = args[TERN_MATMUL_B];
  const TensorView& out = args[TERN_MATMUL_OUT];
  const MatmulSizes s = matmul_sizes(
      [&](int i) -> const auto& { return args[i].desc; }, attrs);
  const int last_a = a.desc.rank - 1, last_b = b.desc.rank - 1, last = out.desc.rank - 1;
  Gemm g;
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.compute = attrs.compute;
  g.alpha = attrs.alpha;
  g.out.dtype = out.dtype();
  g.out.stride_m = out.stride(last - 1);
  g.out.stride_n = out.stride(last);
  g.out.accumulate = args.accumulates(TERN_MATMUL_OUT);
  set_bias(g.out, args[TERN_MATMUL_BIAS]);
  const bool ta = attrs.transpose_a != 0, tb = attrs.transpose_b != 0;
  for (std::int64_t i = 0; i < s.batch; ++i) {
    g.a = dense_operand(a, batch_of(a, i), ta ? last_a : last_a - 1, ta ? last_a - 1 : last_a);
    g.b = b.desc.layout != 0 ? weight_operand(b, args.target, tb)
                             : dense_operand(b, batch_of(b, i), tb ? last_b - 1 : last_b, tb ? last_b : last_b - 1);
    g.out.data = const_cast<void*>(batch_of(out, i));
    if (turns(b, s, ta, args[TERN_MATMUL_BIAS].present())) turn(g);
    gemm(args.target, g, args.workspace, *args.pool);
  }
}

bool matmul_q_supports(const PlanDesc& desc, std::string& reason) {
  const auto& attrs = desc.attrs<tern_matmul_q_attrs>();
  const auto& x = desc.arg(TERN_MATMUL_Q_X);
  const auto& w = desc.arg(TERN_MATMUL_Q_W);
  const auto& bias = desc.arg(TERN_MATMUL_Q_BIAS);
  const auto& y = desc.arg(TERN_MATMUL_Q_Y);
  const bool forward = attrs.transpose_w != 0;
  if (!is_product_dtype(attrs.compute)) return refuse(reason, "products are computed in f32, bf16 or f16");
  if (!check_dense(x, "x", reason) || !check_dense(y, "y", reason)) return false;
  if (!check_weight(w, desc.target, forward, "w", reason)) return false;
  if (x.rank != 2 || y.rank != 2 || x.shape[0] != y.shape[0] || x.shape[1] != w.shape[forward ? 1 : 0] ||
      y.shape[1] != w.shape[forward ? 0 : 1]) {
    return refuse(reason, "the shapes of x, w and y do not fit each other");
  }
  if (bias.rank == 0) return true;
  if (!check_dense(bias, "bias", reason)) return false;
  if (!forward || bias.rank != 1 || bias.shape[0] != y.shape[1])
    return refuse(reason, "bias does not have the shape [out]");
  return true;
}

std::uint64_t matmul_q_workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_MATMUL_Q_X);
  return gemm_workspace(desc.target, x.shape[0], desc.arg(TERN_MATMUL_Q_Y).shape[1], x.shape[1],
                        desc.attrs<tern_matmul_q_attrs>().compute, desc.num_threads);
}

void matmul_q_run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_matmul_q_attrs>();
  const TensorView& x = args[TERN_MATMUL_Q_X];
  const TensorView& y = args[TERN_MATMUL_Q_Y];
  Gemm g;
  g.m = x.dim(0);
  g.n = y.dim(1);
  g.k = x.dim(1);
  g.compute = attrs.compute;
  g.a = dense_operand(x, x.planes[0], 0, 1);
  g.b = weight_operand(args[TERN_MATMUL_Q_W], args.target, attrs.transpose_w != 0);
  g.out.data = y.planes[0];
  g.out.dtype = y.dtype();
  g.out.stride_m = y.stride(0);
  g.out.stride_n = y.stride(1);
  g.out.accumulate = args.accumulates(TERN_MATMUL_Q_Y);
  set_bias(g.out, args[TERN_MATMUL_Q_BIAS]);
  gemm(args.target, g, args.workspace, *args.pool);
}

constexpr std::array kKernels = {
    KernelEntry{TERN_OP_MATMUL, "panels", matmul_supports, matmul_workspace, nullptr, matmul_run},
    KernelEntry{TERN_OP_MATMUL_Q, "panels", matmul_q_supports, matmul_q_workspace, nullptr, matmul_q_run},
};

}  // namespace

KernelList matmul_kernels() { return kKernels; }

}  // namespace tern::cpu
