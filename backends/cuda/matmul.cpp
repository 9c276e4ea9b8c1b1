// matmul: cuBLASLt where it is there, the tile that is likely the fastest, and each other that takes the shapes, of
// which plan measures all.
#include <algorithm>
#include <array>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/product.h"

namespace tern::cuda {
namespace {

// Of an op's desc at its largest, or of what a launch has.
struct Sizes {
  std::int64_t batch, m, n, k;
};

template <typename Get>
Sizes sizes_of(const Get& arg, const tern_matmul_attrs& attrs) {
  const tern_tensor_desc& a = arg(TERN_MATMUL_A);
  const tern_tensor_desc& out = arg(TERN_MATMUL_OUT);
  return {out.rank == 3 ? out.shape[0] : 1, out.shape[out.rank - 2], out.shape[out.rank - 1],
          a.shape[a.rank - (attrs.transpose_a != 0 ? 2 : 1)]};
}

// A matrix whose last dimension is the rows of the side if `crosswise`.
Side side_of(const tern_tensor_desc& desc, bool crosswise) {
  const std::int64_t last = desc.strides[desc.rank - 1];
  const std::int64_t other = desc.strides[desc.rank - 2];
  return {desc.dtype, crosswise ? last : other, crosswise ? other : last, desc.rank == 3 ? desc.strides[0] : 0};
}

ProductSpec spec_of(const tern_op_desc& op) {
  const auto& attrs = *static_cast<const tern_matmul_attrs*>(op.attrs);
  const Sizes sizes = sizes_of(
      [&](int i) -> const auto& { return op.args[i]; }, attrs);
  const tern_tensor_desc& out = op.args[TERN_MATMUL_OUT];
  ProductSpec spec;
  spec.a = side_of(op.args[TERN_MATMUL_A], attrs.transpose_a != 0);
  spec.b = side_of(op.args[TERN_MATMUL_B], attrs.transpose_b == 0);
  spec.m = sizes.m;
  spec.n = sizes.n;
  spec.k = sizes.k;
  spec.batch = sizes.batch;
  spec.compute = attrs.compute;
  spec.any_rows = out.dynamic_dim == out.rank - 2;
  spec.few_alike = (op.needs & TERN_NEED_ROW_INVARIANT) != 0;
  return spec;
}

bool shapes_fit(const PlanDesc& desc, std::string& reason) {
  const auto& attrs = desc.attrs<tern_matmul_attrs>();
  const auto &a = desc.arg(TERN_MATMUL_A), &b = desc.arg(TERN_MATMUL_B), &out = desc.arg(TERN_MATMUL_OUT);
  Check check(desc, reason);
  check.floats({TERN_MATMUL_A, TERN_MATMUL_B, TERN_MATMUL_BIAS, TERN_MATMUL_OUT})
      .that(is_small_float(attrs.compute), "products are computed in f32, bf16 or f16")
      .that(out.rank == 2 || out.rank == 3, "out has a rank other than 2 and 3");
  if (!check.ok()) return false;
  check.that((a.rank == 2 || a.rank == out.rank) && (b.rank == 2 || b.rank == out.rank), "a, b and out differ in rank");
  if (!check.ok()) return false;
  const Sizes s = sizes_of(
      [&](int i) -> const auto& { return desc.arg(i); }, attrs);
  const bool ta = attrs.transpose_a != 0, tb = attrs.transpose_b != 0;
  const bool fits = a.shape[a.rank - (ta ? 1 : 2)] == s.m && b.shape[b.rank - (tb ? 2 : 1)] == s.n &&
                    b.shape[b.rank - (tb ? 1 : 2)] == s.k;
  check.that(fits, "the shapes of a, b and out do not fit each other")
      .that((a.rank == 2 || a.shape[0] == s.batch) && (b.rank == 2 || b.shape[0] == s.batch),
            "a, b and out differ in batch")
      .that(std::max({s.m, s.n, s.k, s.batch}) < INT32_MAX, "a size is over 31 bits")
      .rank(TERN_MATMUL_BIAS, 1)
      .dim(TERN_MATMUL_BIAS, 0, s.n);
  return check.ok();
}

constexpr int kLikely = -1;  // the variant that plan_product chooses
constexpr int kLibrary = -2;
constexpr std::int64_t kLibraryRows = 16;  // up to so many b is read by kernels of our own

ProductPlan plan_of(const ProductSpec& spec, const Facts& facts, int variant) {
  if (variant < 0) return plan_product(spec, facts);
  return plan_product(product_tiles()[static_cast<std::size_t>(variant)], spec, facts);
}

bool takes_library(const PlanDesc& desc, const ProductSpec& spec) {
  const tern_tensor_desc &out = desc.arg(TERN_MATMUL_OUT), &bias = desc.arg(TERN_MATMUL_BIAS);
  LtCall call;
  call.out_dtype = out.dtype;
  call.out_row = out.strides[out.rank - 2];
  call.out_col = out.strides[out.rank - 1];
  // The bias is laid into out before, which then adds: it must be there exactly, and nothing else.
  if (bias.rank != 0 && (desc.accumulates(TERN_MATMUL_OUT) || (bias.dtype != out.dtype && out.dtype != TERN_F32))) {
    return false;
  }
  return !desc.device.described && spec.m > kLibraryRows && takes_cublaslt(spec, call);
}

bool supports(const PlanDesc& desc, std::string& reason) {
  if (!shapes_fit(desc, reason)) return false;
  if (desc.variant == kLikely) return true;
  const ProductSpec spec = spec_of(desc.op);
  if (desc.variant == kLibrary) {
    return Check(desc, reason).that(takes_library(desc, spec), "cuBLASLt isn't there, or doesn't take these").ok();
  }
  const Tile& tile = product_tiles()[static_cast<std::size_t>(desc.variant)];
  return Check(desc, reason)
      .that(takes_product(tile, spec), "another kernel has these strides and sizes")
      .that(plan_product(spec, desc.device).tile != &tile, "it is the likely one")
      .ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  const ProductSpec spec = spec_of(desc.op);
  const std::uint64_t bytes = product_bytes(plan_of(spec, desc.device, desc.variant), spec);
  return desc.variant == kLibrary ? std::max(bytes, cublaslt_workspace(spec)) : bytes;
}

Functions functions(const PlanDesc& desc) {
  const ProductSpec spec = spec_of(desc.op);
  Functions list = product_functions(plan_of(spec, desc.device, desc.variant), spec);
  list.emplace_back("lay_bias");
  return list;
}

// out [batch, m, n] becomes the bias [n] in every row.
void lay_bias(const Launch& launch, const ProductCall& call) {
  struct Sizes {  // of cu/product_tile.cu
    std::int64_t rows, columns, m, row, col, batch;
  } sizes{call.m * call.batch, call.n, call.m, call.out_row, call.out_col, call.out_batch};
  launch.call(kProductFunctions)
      .arg(launch[TERN_MATMUL_BIAS])
      .arg(call.bias_step)
      .arg(launch[TERN_MATMUL_OUT])
      .arg(sizes)
      .overlapped()
      .run(sizes.rows * sizes.columns, 256);
}

bool run_by_library(const Launch& launch, const ProductSpec& spec, ProductCall call) {
  if (call.m == 0 || call.n == 0 || call.k == 0 || call.batch == 0) return false;
  if (call.bias != 0) lay_bias(launch, call);
  call.adds = call.adds || call.bias != 0;
  return run_cublaslt(launch, launch.workspace(), spec, call);
}

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_matmul_attrs>();
  const TensorView& out = launch[TERN_MATMUL_OUT];
  const Sizes sizes = sizes_of(
      [&](int i) -> const auto& { return launch[i].desc; }, attrs);
  const ProductSpec spec = spec_of(launch.planned());
  const int last = out.desc.rank - 1;
  ProductCall call;
  call.m = sizes.m;
  call.n = sizes.n;
  call.k = sizes.k;
  call.batch = sizes.batch;
  call.a = launch[TERN_MATMUL_A].planes[0];
  call.b = launch[TERN_MATMUL_B].planes[0];
  call.take_bias(launch[TERN_MATMUL_BIAS]);
  call.out = out.planes[0];
  call.out_dtype = out.dtype();
  call.out_row = out.stride(last - 1);
  call.out_col = out.stride(last);
  call.out_batch = last == 2 ? out.stride(0) : 0;
  call.adds = launch.accumulates(TERN_MATMUL_OUT);
  call.alpha = attrs.alpha;
  // Where the library has no algorithm for it, it is the likely kernel's.
  if (launch.variant() == kLibrary && run_by_library(launch, spec, call)) return;
  run_product(launch, 0, launch.workspace(), plan_of(spec, launch.device(), launch.variant()), spec, call);
}

}  // namespace

KernelList matmul_kernels() {
  static const std::vector<KernelEntry> kernels = [] {
    std::vector<KernelEntry> list = {{TERN_OP_MATMUL, "cublaslt", supports, workspace, functions, run, kLibrary},
                                     {TERN_OP_MATMUL, "likely", supports, workspace, functions, run, kLikely}};
    int variant = 0;
    for (const Tile& tile : product_tiles()) {
      list.push_back({TERN_OP_MATMUL, tile.name, supports, workspace, functions, run, variant++});
    }
    return list;
  }();
  return kernels;
}

}  // namespace tern::cuda
