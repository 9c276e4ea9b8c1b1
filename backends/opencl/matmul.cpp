// matmul: each tile of product_tiles() is a kernel of its own, of which plan measures those that take the shapes.
#include <array>
#include <utility>

#include "backends/opencl/kernels.h"
#include "backends/opencl/product.h"

namespace tern::opencl {
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
  ProductSpec spec;
  spec.a = side_of(op.args[TERN_MATMUL_A], attrs.transpose_a != 0);
  spec.b = side_of(op.args[TERN_MATMUL_B], attrs.transpose_b == 0);
  spec.m = sizes.m;
  spec.n = sizes.n;
  spec.k = sizes.k;
  spec.compute = attrs.compute;
  const tern_tensor_desc& out = op.args[TERN_MATMUL_OUT];
  spec.any_rows = out.dynamic_dim == out.rank - 2;
  spec.few_alike = (op.needs & TERN_NEED_ROW_INVARIANT) != 0;
  spec.in_order = spec.few_alike && attrs.transpose_a != 0;  // where the strides of one row say nothing
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
      .rank(TERN_MATMUL_BIAS, 1)
      .dim(TERN_MATMUL_BIAS, 0, s.n);
  return check.ok();
}

bool supports(const PlanDesc& desc, std::string& reason) {
  if (!shapes_fit(desc, reason)) return false;
  if (takes_product(product_tiles()[static_cast<std::size_t>(desc.variant)], spec_of(desc.op), desc.device))
    return true;
  reason = "another kernel has these strides and sizes";
  return false;
}

ProductPlan plan_of(const ProductSpec& spec, const Facts& facts, int variant) {
  return plan_product(product_tiles()[static_cast<std::size_t>(variant)], spec, facts);
}

std::vector<Function> functions(const PlanDesc& desc) {
  const ProductSpec spec = spec_of(desc.op);
  return {product_function(plan_of(spec, desc.device, desc.variant), spec)};
}

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_matmul_attrs>();
  const TensorView &bias = launch[TERN_MATMUL_BIAS], &out = launch[TERN_MATMUL_OUT];
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
  if (bias.present()) {
    call.bias = bias.planes[0];
    call.bias_dtype = bias.dtype();
    call.bias_step = bias.stride(0);
  }
  call.out = out.planes[0];
  call.out_dtype = out.dtype();
  call.out_row = out.stride(last - 1);
  call.out_col = out.stride(last);
  call.out_batch = last == 2 ? out.stride(0) : 0;
  call.adds = launch.accumulates(TERN_MATMUL_OUT);
  call.alpha = attrs.alpha;
  run_product(launch.call(0), plan_of(spec, launch.device(), launch.variant()), spec, call);
}

}  // namespace

KernelList matmul_kernels() {
  static const std::vector<KernelEntry> kernels = [] {
    std::vector<KernelEntry> list;
    int variant = 0;
    for (const Tile& tile : product_tiles()) {
      list.push_back({TERN_OP_MATMUL, tile.name, supports, nullptr, functions, run, variant++});
    }
    return list;
  }();
  return kernels;
}

}  // namespace tern::opencl
