// matmul_q: few rows expand the weight's numbers where they multiply them, so that it's read once and as it is stored;
// many rows expand a panel of it at a time into the workspace, where every row finds it.
#include <algorithm>
#include <array>

#include "backends/opencl/kernels.h"
#include "backends/opencl/product.h"
#include "backends/opencl/weight.h"

namespace tern::opencl {
namespace {

constexpr std::int64_t kPanelBytes = 16 << 20;
constexpr std::int64_t kPanelStep = 64;  // rows of a panel are a multiple
constexpr std::int64_t kManyRows = 8;

int expanded_variant() { return static_cast<int>(product_tiles().size()); }

bool is_forward(const tern_op_desc& op) { return static_cast<const tern_matmul_q_attrs*>(op.attrs)->transpose_w != 0; }

ProductSpec spec_of(const tern_op_desc& op) {
  const auto &x = op.args[TERN_MATMUL_Q_X], &w = op.args[TERN_MATMUL_Q_W], &y = op.args[TERN_MATMUL_Q_Y];
  const bool forward = is_forward(op);
  ProductSpec spec;
  spec.a = {x.dtype, x.strides[0], x.strides[1], 0};
  spec.m = x.shape[0];
  spec.n = y.shape[1];
  spec.k = x.shape[1];
  spec.compute = static_cast<const tern_matmul_q_attrs*>(op.attrs)->compute;
  spec.packing = w.scheme.packing;
  if (w.scheme.packing == TERN_PACK_NONE) {
    spec.b = {w.dtype, w.strides[forward ? 0 : 1], w.strides[forward ? 1 : 0], 0};
  } else {
    spec.b = {w.dtype, forward ? 0 : 1, forward ? 1 : 0, 0};
  }
  spec.any_rows = x.dynamic_dim == 0;
  spec.few_alike = (op.needs & TERN_NEED_ROW_INVARIANT) != 0;
  return spec;
}

// Outputs of the product that a panel has.
std::int64_t panel_of(const ProductSpec& spec) {
  const std::int64_t most = kPanelBytes / 4 / std::max<std::int64_t>(spec.k, 1) / kPanelStep * kPanelStep;
  return std::min(std::max(most, kPanelStep), round_up(std::max<std::int64_t>(spec.n, 1), kPanelStep));
}

// The product by a panel: [n, k] as it's multiplied forward, [k, n] in the gradient.
ProductSpec panel_spec(const ProductSpec& whole) {
  ProductSpec spec = whole;
  spec.packing = TERN_PACK_NONE;
  spec.n = panel_of(whole);
  const bool across = whole.b.row == 1;
  spec.b = {TERN_F32, across ? 1 : whole.k, across ? spec.n : 1, 0};
  return spec;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_MATMUL_Q_X), &w = desc.arg(TERN_MATMUL_Q_W), &y = desc.arg(TERN_MATMUL_Q_Y);
  const auto& attrs = desc.attrs<tern_matmul_q_attrs>();
  const bool forward = is_forward(desc.op);
  Check check(desc, reason);
  check.floats({TERN_MATMUL_Q_X, TERN_MATMUL_Q_BIAS, TERN_MATMUL_Q_Y})
      .that(is_small_float(attrs.compute), "products are computed in f32, bf16 or f16")
      .rank(TERN_MATMUL_Q_X, 2)
      .rank(TERN_MATMUL_Q_W, 2)
      .rank(TERN_MATMUL_Q_Y, 2)
      .that(
          x.shape[0] == y.shape[0] && x.shape[1] == w.shape[forward ? 1 : 0] && y.shape[1] == w.shape[forward ? 0 : 1],
          "the shapes of x, w and y do not fit each other")
      .that(forward || !desc.present(TERN_MATMUL_Q_BIAS), "the gradient has no bias")
      .rank(TERN_MATMUL_Q_BIAS, 1)
      .dim(TERN_MATMUL_Q_BIAS, 0, y.shape[1]);
  if (!check.ok()) return false;
  const bool quantised = w.scheme.packing != TERN_PACK_NONE;
  if (quantised ? !expands_weight(w, reason) : !Check(desc, reason).floats({TERN_MATMUL_Q_W}).ok()) return false;
  const ProductSpec spec = spec_of(desc.op);
  const bool taken = desc.variant == expanded_variant()
                         ? quantised && (spec.m >= kManyRows || x.strides[1] != 1)
                         : takes_product(product_tiles()[static_cast<std::size_t>(desc.variant)], spec, desc.device);
  return Check(desc, reason).that(taken, "another kernel has these strides and sizes").ok();
}

std::uint64_t panel_bytes(const ProductSpec& spec) { return static_cast<std::uint64_t>(panel_of(spec) * spec.k) * 4; }

// A panel, and again across the sum if that's worth it.
std::uint64_t workspace(const PlanDesc& desc) {
  if (desc.variant != expanded_variant()) return 0;
  const ProductSpec spec = spec_of(desc.op), panel = panel_spec(spec);
  return panel_bytes(spec) + (goes_across(panel, desc.device) ? across_bytes(panel) : 0);
}

// Of the product itself, or of that by a panel, which may be laid across first.
struct Planned {
  ProductSpec spec;
  ProductPlan plan;
  bool across = false;
};
Planned planned_of(const tern_op_desc& op, const Facts& facts, int variant) {
  const ProductSpec spec = spec_of(op);
  if (variant != expanded_variant()) {
    return {spec, plan_product(product_tiles()[static_cast<std::size_t>(variant)], spec, facts)};
  }
  const ProductSpec panel = panel_spec(spec);
  const bool across = goes_across(panel, facts);
  const ProductSpec left = across ? across_spec(panel) : panel;
  return {left, plan_product(first_tile(left, facts), left, facts), across};
}

std::vector<Function> functions(const PlanDesc& desc) {
  const Planned planned = planned_of(desc.op, desc.device, desc.variant);
  std::vector<Function> list = {product_function(planned.plan, planned.spec)};
  if (desc.variant == expanded_variant()) {
    list.push_back(expand_function(desc.arg(TERN_MATMUL_Q_W).scheme.packing));
    if (planned.across) list.push_back(across_function(panel_spec(spec_of(desc.op))));
  }
  return list;
}

void run_panels(const Launch& launch, const Planned& planned, ProductCall call) {
  const TensorView &w = launch[TERN_MATMUL_Q_W], &y = launch[TERN_MATMUL_Q_Y], &bias = launch[TERN_MATMUL_Q_BIAS];
  const ProductSpec whole = spec_of(launch.planned()), panel = panel_spec(whole);
  const std::int64_t n = call.n;
  const bool columns = whole.b.row == 1;
  for (std::int64_t first = 0; first < n; first += panel.n) {
    Expansion part;
    call.b = part.out = launch.workspace();
    call.n = std::min(panel.n, n - first);
    (columns ? part.first_column : part.first_row) = first;
    part.rows = columns ? w.dim(0) : call.n;
    part.columns = columns ? call.n : w.dim(1);
    part.out_row = columns ? panel.n : w.dim(1);
    expand_weight(launch.call(1), w, part, launch.device());
    if (planned.across) {
      const Place across = launch.workspace(panel_bytes(whole));
      run_across(launch.call(2), panel, call, across);
      call.b = across;
    }
    call.out = place_of(y, first * y.stride(1));
    if (bias.present()) call.bias = place_of(bias, first * bias.stride(0));
    run_product(launch.call(0), planned.plan, planned.spec, call);
  }
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_MATMUL_Q_X], &w = launch[TERN_MATMUL_Q_W], &y = launch[TERN_MATMUL_Q_Y];
  const TensorView& bias = launch[TERN_MATMUL_Q_BIAS];
  const Planned planned = planned_of(launch.planned(), launch.device(), launch.variant());
  ProductCall call;
  call.m = x.dim(0);
  call.n = y.dim(1);
  call.k = x.dim(1);
  call.a = x.planes[0];
  call.b = w.planes[0];
  call.weight = &w;
  call.take_bias(bias);
  call.out = y.planes[0];
  call.out_dtype = y.dtype();
  call.out_row = y.stride(0);
  call.out_col = y.stride(1);
  call.adds = launch.accumulates(TERN_MATMUL_Q_Y);
  if (launch.variant() == expanded_variant()) {
    if (call.m > 0) run_panels(launch, planned, call);
  } else {
    run_product(launch.call(0), planned.plan, planned.spec, call);
  }
}

}  // namespace

KernelList matmul_q_kernels() {
  static const std::vector<KernelEntry> kernels = [] {
    std::vector<KernelEntry> list;
    const KernelEntry expanded = {TERN_OP_MATMUL_Q, "expanded", supports,          workspace,
                                  functions,        run,        expanded_variant()};
    int variant = 0;
    for (const Tile& tile : product_tiles()) {
      if (tile.form == Form::plain) list.push_back(expanded);  // the last but one
      list.push_back({TERN_OP_MATMUL_Q, tile.name, supports, workspace, functions, run, variant++});
    }
    return list;
  }();
  return kernels;
}

}  // namespace tern::opencl
