// matmul_q: few rows expand the weight's numbers where they multiply them, so that it's read once and as it is stored;
// many rows, and gradients, expand a panel of it at a time into the workspace, where every row finds it.
#include <algorithm>

#include "backends/cuda/few_rows.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/product.h"
#include "backends/cuda/weight.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {
namespace {

constexpr int kX = TERN_MATMUL_Q_X, kW = TERN_MATMUL_Q_W, kBias = TERN_MATMUL_Q_BIAS, kY = TERN_MATMUL_Q_Y;
// Beyond so many rows reading the weight again for every few costs more than laying it out.
constexpr std::int64_t kMostFew = 32;
constexpr std::int64_t kPanelBytes = 64 << 20;
constexpr std::int64_t kPanelStep = 256;  // outputs of a panel are a multiple

enum Variant { few, panels, numbers };

bool is_forward(const tern_op_desc& op) { return static_cast<const tern_matmul_q_attrs*>(op.attrs)->transpose_w != 0; }
tern_compute compute_of(const tern_op_desc& op) { return static_cast<const tern_matmul_q_attrs*>(op.attrs)->compute; }

// The product by the whole weight, which lies as numbers.
ProductSpec whole_spec(const tern_op_desc& op) {
  const auto &x = op.args[kX], &w = op.args[kW], &y = op.args[kY];
  const bool forward = is_forward(op);
  ProductSpec spec;
  spec.a = {x.dtype, x.strides[0], x.strides[1], 0};
  spec.b = {w.dtype, w.strides[forward ? 0 : 1], w.strides[forward ? 1 : 0], 0};
  spec.m = x.shape[0];
  spec.n = y.shape[1];
  spec.k = x.shape[1];
  spec.compute = compute_of(op);
  spec.any_rows = x.dynamic_dim == 0;
  spec.few_alike = (op.needs & TERN_NEED_ROW_INVARIANT) != 0;
  return spec;
}

// The product by a panel: [n, k] as it's multiplied forward, [k, n] in the gradient.
ProductSpec panel_spec(const tern_op_desc& op) {
  ProductSpec spec = whole_spec(op);
  const auto bytes = static_cast<std::int64_t>(tern_plugin_dtype_bytes(spec.compute));
  const std::int64_t n = std::max<std::int64_t>(spec.n, 1), k = std::max<std::int64_t>(spec.k, 1);
  const std::int64_t panels = parts_of(n * k * bytes, kPanelBytes);
  spec.n = std::min(round_up(parts_of(n, panels), kPanelStep), round_up(n, 16));
  spec.b = is_forward(op) ? Side{spec.compute, spec.k, 1, 0} : Side{spec.compute, 1, spec.n, 0};
  return spec;
}
std::uint64_t panel_bytes(const ProductSpec& spec) {
  const auto bytes = static_cast<std::int64_t>(tern_plugin_dtype_bytes(spec.compute));
  return static_cast<std::uint64_t>(round_up(spec.n * spec.k * bytes, 256));
}

FewPlan few_plan(const tern_op_desc& op, const Facts& facts) {
  const auto& w = op.args[kW];
  return plan_few_rows(compute_of(op), op.args[kX].shape[0], w.shape[0], w.shape[1], facts);
}
bool takes_few(const PlanDesc& desc) {
  const bool rows = desc.arg(kX).shape[0] <= kMostFew || desc.needs(TERN_NEED_ROW_INVARIANT) ||
                    compute_of(desc.op) == TERN_COMPUTE_X15;
  return is_forward(desc.op) && rows && few_plan(desc.op, desc.device).rows > 0;
}

bool supports_x15(const PlanDesc& desc, std::string& reason) {
  const auto& w = desc.arg(kW);
  const tern_packing packing = w.scheme.packing;
  const std::int64_t group = w.scheme.group_cols > 0 ? w.scheme.group_cols : w.shape[1];
  return Check(desc, reason)
      .that(is_forward(desc.op), "x15 is for the forward product")
      .that(packing_block(packing).elements > 0 || packing == TERN_PACK_ROW_INT8,
            "x15 is for weights in blocks and of int8")
      .that(w.shape[1] % 32 == 0 && (packing != TERN_PACK_ROW_INT8 || group % 32 == 0),
            "x15 takes rows and groups of whole blocks of 32")
      .that(few_plan(desc.op, desc.device).rows > 0, "x15 is for shorter rows")
      .ok();
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(kX), &w = desc.arg(kW), &y = desc.arg(kY);
  const bool forward = is_forward(desc.op);
  Check check(desc, reason);
  const bool x15 = compute_of(desc.op) == TERN_COMPUTE_X15;
  check.floats({kX, kBias, kY})
      .that(x15 || is_small_float(compute_of(desc.op)), "products are computed in f32, bf16, f16 or x15")
      .rank(kX, 2)
      .rank(kW, 2)
      .rank(kY, 2)
      .that(
          x.shape[0] == y.shape[0] && x.shape[1] == w.shape[forward ? 1 : 0] && y.shape[1] == w.shape[forward ? 0 : 1],
          "the shapes of x, w and y do not fit each other")
      .that(x.shape[0] <= INT32_MAX, "there are too many rows")
      .that(forward || !desc.present(kBias), "the gradient has no bias")
      .rank(kBias, 1)
      .dim(kBias, 0, y.shape[1]);
  if (!check.ok()) return false;
  const bool quantised = w.scheme.packing != TERN_PACK_NONE;
  if (quantised ? !expands_weight(w, reason) : !check.floats({kW}).ok()) return false;
  if (x15 && !supports_x15(desc, reason)) return false;
  const Variant needed = !quantised ? numbers : takes_few(desc) ? few : panels;
  return check.that(desc.variant == needed, "another kernel has these sizes").ok();
}

ProductSpec spec_of(const tern_op_desc& op, int variant) { return variant == panels ? panel_spec(op) : whole_spec(op); }

std::uint64_t workspace(const PlanDesc& desc) {
  if (desc.variant == few) return 0;
  const ProductSpec spec = spec_of(desc.op, desc.variant);
  return product_bytes(plan_product(spec, desc.device), spec) + (desc.variant == panels ? panel_bytes(spec) : 0);
}

Functions functions(const PlanDesc& desc) {
  const tern_packing packing = desc.arg(kW).scheme.packing;
  if (desc.variant == few) return {few_rows_function(few_plan(desc.op, desc.device), packing)};
  const ProductSpec spec = spec_of(desc.op, desc.variant);
  Functions list = product_functions(plan_product(spec, desc.device), spec);
  if (desc.variant == panels) list.push_back(expand_function(packing));
  return list;
}

void run_few(const Launch& launch) {
  FewCall call{&launch[kX], &launch[kW], &launch[kBias], &launch[kY]};
  call.n = launch[kY].dim(1);
  run_few_rows(launch.call(0), few_plan(launch.planned(), launch.device()), call);
}

void run_panels(const Launch& launch, const ProductPlan& plan, const ProductSpec& spec, ProductCall call) {
  const TensorView &w = launch[kW], &y = launch[kY], &bias = launch[kBias];
  const bool forward = is_forward(launch.planned());
  const std::int64_t n = call.n;
  for (std::int64_t first = 0; first < n; first += spec.n) {
    Expansion part;
    call.b = part.out = launch.workspace();
    call.n = std::min(spec.n, n - first);
    (forward ? part.first_row : part.first_column) = first;
    part.rows = forward ? call.n : w.dim(0);
    part.columns = forward ? w.dim(1) : call.n;
    part.out_dtype = spec.compute;
    part.out_row = forward ? spec.k : spec.n;
    expand_weight(launch.call(kProductFunctions), w, part);
    call.out = place_of(y, first * y.stride(1));
    if (bias.present()) call.bias = place_of(bias, first * bias.stride(0));
    run_product(launch, 0, launch.workspace(panel_bytes(spec)), plan, spec, call);
  }
}

void run(const Launch& launch) {
  const TensorView &x = launch[kX], &y = launch[kY];
  if (y.elements() == 0) return;
  if (launch.variant() == few) return run_few(launch);
  const ProductSpec spec = spec_of(launch.planned(), launch.variant());
  const ProductPlan plan = plan_product(spec, launch.device());
  ProductCall call;
  call.m = x.dim(0);
  call.n = y.dim(1);
  call.k = x.dim(1);
  call.a = x.planes[0];
  call.b = launch[kW].planes[0];
  call.take_bias(launch[kBias]);
  call.out = y.planes[0];
  call.out_dtype = y.dtype();
  call.out_row = y.stride(0);
  call.out_col = y.stride(1);
  call.adds = launch.accumulates(kY);
  if (launch.variant() == panels) {
    run_panels(launch, plan, spec, call);
  } else {
    run_product(launch, 0, launch.workspace(), plan, spec, call);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MATMUL_Q, "few_rows", supports, workspace, functions, run, few},
                                    {TERN_OP_MATMUL_Q, "panels", supports, workspace, functions, run, panels},
                                    {TERN_OP_MATMUL_Q, "numbers", supports, workspace, functions, run, numbers}};

}  // namespace

KernelList matmul_q_kernels() { return kKernels; }

}  // namespace tern::cuda
