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

// Behind the tiles: b is laid across the sum first.
int across_variant() { return static_cast<int>(product_tiles().size()); }

struct Planned {
  ProductSpec spec;
  ProductPlan plan;
};
Planned planned_of(const tern_op_desc& op, const Facts& facts, int variant) {
  const ProductSpec spec = spec_of(op);
  if (variant != across_variant()) {
    return {spec, plan_product(product_tiles()[static_cast<std::size_t>(variant)], spec, facts)};
  }
  const ProductSpec left = across_spec(spec);
  return {left, plan_product(first_tile(left, facts), left, facts)};
}

bool supports(const PlanDesc& desc, std::string& reason) {
  if (!shapes_fit(desc, reason)) return false;
  const ProductSpec spec = spec_of(desc.op);
  const bool taken = desc.variant == across_variant()
                         ? desc.arg(TERN_MATMUL_OUT).rank == 2 && goes_across(spec, desc.device)
                         : takes_product(product_tiles()[static_cast<std::size_t>(desc.variant)], spec, desc.device);
  return Check(desc, reason).that(taken, "another kernel has these strides and sizes").ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  return desc.variant == across_variant() ? across_bytes(spec_of(desc.op)) : 0;
}

std::vector<Function> functions(const PlanDesc& desc) {
  const Planned planned = planned_of(desc.op, desc.device, desc.variant);
  std::vector<Function> list = {product_function(planned.plan, planned.spec)};
  if (desc.variant == across_variant()) list.push_back(across_function(spec_of(desc.op)));
  return list;
}

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_matmul_attrs>();
  const TensorView &bias = launch[TERN_MATMUL_BIAS], &out = launch[TERN_MATMUL_OUT];
  const Sizes sizes = sizes_of(
      [&](int i) -> const auto& { return launch[i].desc; }, attrs);
  const Planned planned = planned_of(launch.planned(), launch.device(), launch.variant());
  const int last = out.desc.rank - 1;
  ProductCall call;
  call.m = sizes.m;
  call.n = sizes.n;
  call.k = sizes.k;
  call.batch = sizes.batch;
  call.a = launch[TERN_MATMUL_A].planes[0];
  call.b = launch[TERN_MATMUL_B].planes[0];
  call.take_bias(bias);
  call.out = out.planes[0];
  call.out_dtype = out.dtype();
  call.out_row = out.stride(last - 1);
  call.out_col = out.stride(last);
  call.out_batch = last == 2 ? out.stride(0) : 0;
  call.adds = launch.accumulates(TERN_MATMUL_OUT);
  call.alpha = attrs.alpha;
  if (launch.variant() == across_variant() && call.m > 0) {
    run_across(launch.call(1), spec_of(launch.planned()), call, launch.workspace());
    call.b = launch.workspace();
  }
  run_product(launch.call(0), planned.plan, planned.spec, call);
}

}  // namespace

KernelList matmul_kernels() {
  static const std::vector<KernelEntry> kernels = [] {
    std::vector<KernelEntry> list;
    int variant = 0;
    for (const Tile& tile : product_tiles()) {
      list.push_back({TERN_OP_MATMUL, tile.name, supports, workspace, functions, run, variant++});
    }
    list.push_back({TERN_OP_MATMUL, "across", supports, workspace, functions, run, variant});
    return list;
  }();
  return kernels;
}

}  // namespace tern::opencl
