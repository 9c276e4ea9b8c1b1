// grouped_matmul of quantised weights: experts of few rows expand their numbers where they multiply them; those of
// many, and gradients, take a panel of all experts' weights at a time, laid out as numbers in the workspace.
#include <algorithm>

#include "backends/cuda/expert_tiles.h"
#include "backends/cuda/few_rows.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/product.h"
#include "backends/cuda/weight.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {
namespace {

constexpr int kX = TERN_GROUPED_MATMUL_X, kW = TERN_GROUPED_MATMUL_W, kBias = TERN_GROUPED_MATMUL_BIAS;
constexpr int kOffsets = TERN_GROUPED_MATMUL_OFFSETS, kY = TERN_GROUPED_MATMUL_Y;
constexpr std::int64_t kMostFew = 32;  // rows of an expert, on average, that read its weight again for every few
constexpr std::int64_t kPanelBytes = 128 << 20;
constexpr std::int64_t kPanelStep = 64;  // outputs of a panel are a multiple

enum Variant { few, panels };

const tern_grouped_matmul_attrs& attrs_of(const tern_op_desc& op) {
  return *static_cast<const tern_grouped_matmul_attrs*>(op.attrs);
}
bool is_forward(const tern_op_desc& op) { return attrs_of(op).transpose_w != 0; }
std::int64_t experts_of(const tern_op_desc& op) { return op.args[kOffsets].shape[0] - 1; }
std::int64_t rows_of(const tern_op_desc& op) { return op.args[kX].shape[0] * op.args[kX].shape[1]; }

// The product by a panel: of each expert [n, k] as it's multiplied forward, [k, n] in the gradient. In the gradient the
// rows of all experts are one matrix.
ProductSpec panel_spec(const tern_op_desc& op) {
  const auto &x = op.args[kX], &y = op.args[kY];
  ProductSpec spec;
  spec.grouped = true;
  const ExpertRows rows = expert_rows(x, y);
  spec.a = {x.dtype, rows.row, x.strides[2], 0};
  spec.parts = rows.parts;
  spec.a_sub = rows.sub;
  spec.m = std::max<std::int64_t>(rows_of(op) / experts_of(op), 1);
  spec.k = x.shape[2];
  spec.compute = attrs_of(op).compute;
  spec.few_alike = (op.needs & TERN_NEED_ROW_INVARIANT) != 0;
  const auto bytes = static_cast<std::int64_t>(tern_plugin_dtype_bytes(spec.compute));
  const std::int64_t n = std::max<std::int64_t>(y.shape[2], 1), k = std::max<std::int64_t>(spec.k, 1);
  const std::int64_t panels = parts_of(experts_of(op) * n * k * bytes, kPanelBytes);
  spec.n = std::min(round_up(parts_of(n, panels), kPanelStep), round_up(n, 16));
  const bool forward = is_forward(op);
  spec.b = {spec.compute, forward ? spec.k : 1, forward ? 1 : spec.n, spec.n * spec.k};
  return spec;
}
std::uint64_t panel_bytes(const tern_op_desc& op, const ProductSpec& spec) {
  const auto bytes = static_cast<std::int64_t>(tern_plugin_dtype_bytes(spec.compute));
  return static_cast<std::uint64_t>(round_up(experts_of(op) * spec.n * spec.k * bytes, 256));
}

FewPlan few_plan(const tern_op_desc& op, const Facts& facts) {
  return plan_few_rows(attrs_of(op).compute, rows_of(op), op.args[kY].shape[2], op.args[kX].shape[2], facts);
}

Variant variant_of(const PlanDesc& desc) {
  const std::int64_t experts = experts_of(desc.op);
  const bool rows = rows_of(desc.op) <= experts * kMostFew || desc.needs(TERN_NEED_ROW_INVARIANT);
  return is_forward(desc.op) && rows && few_plan(desc.op, desc.device).rows > 0 ? few : panels;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(kX), &w = desc.arg(kW), &offsets = desc.arg(kOffsets);
  Check check(desc, reason);
  check.that(w.scheme.packing != TERN_PACK_NONE, "it is for quantised weights")
      .floats({kX, kY, kBias})
      .rank(kX, 3)
      .rank(kY, 3)
      .rank(kBias, 2)
      .rank(kOffsets, 1)
      .rank(kW, 2)
      .that(is_small_float(attrs_of(desc.op).compute), "products are computed in f32, bf16 or f16");
  if (!check.ok()) return false;
  const std::int64_t experts = offsets.shape[0] - 1;
  check.that(experts >= 1, "offsets name no expert")
      .dim(kY, 0, x.shape[0])
      .dim(kY, 1, x.shape[1])
      .that(experts < 1 || w.shape[0] % experts == 0, "w has no equal number of rows for each expert");
  if (!check.ok()) return false;
  const bool forward = is_forward(desc.op);
  const std::int64_t out = w.shape[0] / experts, in = w.shape[1];
  check.dim(kX, 2, forward ? in : out)
      .dim(kY, 2, forward ? out : in)
      .that(forward || !desc.present(kBias), "the gradient has no bias")
      .dim(kBias, 0, experts)
      .dim(kBias, 1, out)
      .that(rows_of(desc.op) < INT32_MAX, "there are too many rows");
  if (!check.ok() || !expands_weight(w, reason)) return false;
  return check.that(desc.variant == variant_of(desc), "another kernel has these sizes").ok();
}

// Rows of a tile of the list.
std::int64_t step_of(const tern_op_desc& op, int variant, const Facts& facts) {
  return variant == few ? few_plan(op, facts).rows : rows_of_tile(plan_product(panel_spec(op), facts));
}
std::uint64_t tiles_bytes(const tern_op_desc& op, int variant, const Facts& facts) {
  return expert_tiles_bytes(rows_of(op), experts_of(op), step_of(op, variant, facts));
}

// The list of tiles, then a panel, then what the product needs.
std::uint64_t workspace(const PlanDesc& desc) {
  const std::uint64_t tiles = tiles_bytes(desc.op, desc.variant, desc.device);
  if (desc.variant == few) return tiles;
  const ProductSpec spec = panel_spec(desc.op);
  return tiles + panel_bytes(desc.op, spec) + product_bytes(plan_product(spec, desc.device), spec);
}

Functions functions(const PlanDesc& desc) {
  const tern_packing packing = desc.arg(kW).scheme.packing;
  if (desc.variant == few) {
    return {kExpertTilesFunction, few_rows_function(few_plan(desc.op, desc.device), packing)};
  }
  const ProductSpec spec = panel_spec(desc.op);
  Functions list = {kExpertTilesFunction, expand_function(packing)};
  for (std::string& name : product_functions(plan_product(spec, desc.device), spec)) list.push_back(std::move(name));
  return list;
}

void run_panels(const Launch& launch, std::int64_t num_tiles) {
  const tern_op_desc& op = launch.planned();
  const TensorView &x = launch[kX], &w = launch[kW], &y = launch[kY], &bias = launch[kBias];
  const ProductSpec spec = panel_spec(op);
  const ProductPlan plan = plan_product(spec, launch.device());
  const bool forward = is_forward(op);
  const std::int64_t experts = experts_of(op), n = y.dim(2);
  const std::uint64_t at = tiles_bytes(op, panels, launch.device());
  ProductCall call;
  call.m = x.dim(0) * x.dim(1);
  call.k = x.dim(2);
  call.a = x.planes[0];
  call.b = launch.workspace(at);
  call.take_bias(bias);
  call.out_dtype = y.dtype();
  const ExpertRows rows = expert_rows(y.desc, x.desc);
  call.out_row = rows.row;
  call.out_sub = rows.sub;
  call.out_col = y.stride(2);
  call.adds = launch.accumulates(kY);
  call.tiles = launch.workspace();
  call.num_tiles = num_tiles;
  for (std::int64_t first = 0; first < n; first += spec.n) {
    Expansion part;
    call.n = std::min(spec.n, n - first);
    part.rows = forward ? experts * call.n : w.dim(0);
    part.columns = forward ? w.dim(1) : call.n;
    if (forward) {
      part.first_row = first;
      part.part_rows = call.n;
      part.part_step = n;
      part.out_part = spec.b.batch;
    } else {
      part.first_column = first;
    }
    part.out = call.b;
    part.out_dtype = spec.compute;
    part.out_row = forward ? spec.k : spec.n;
    expand_weight(launch.call(1), w, part);
    call.out = place_of(y, first * y.stride(2));
    if (bias.present()) call.bias = place_of(bias, first * bias.stride(1));
    run_product(launch, 2, launch.workspace(at + panel_bytes(op, spec)), plan, spec, call);
  }
}

void run(const Launch& launch) {
  const TensorView &x = launch[kX], &y = launch[kY], &offsets = launch[kOffsets];
  if (y.elements() == 0) return;
  const tern_op_desc& op = launch.planned();
  const std::int64_t rows = x.dim(0) * x.dim(1), step = step_of(op, launch.variant(), launch.device());
  const std::int64_t num_tiles = num_expert_tiles(rows, experts_of(op), step);
  run_expert_tiles(launch.call(0), offsets, launch.workspace(), rows, step);
  if (launch.variant() == panels) return run_panels(launch, num_tiles);
  FewCall call{&x, &launch[kW], &launch[kBias], &y};
  call.n = y.dim(2);
  call.tiles = launch.workspace();
  call.num_tiles = num_tiles;
  run_few_rows(launch.call(1), few_plan(op, launch.device()), call);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_GROUPED_MATMUL, "few_rows", supports, workspace, functions, run, few},
                                    {TERN_OP_GROUPED_MATMUL, "panels", supports, workspace, functions, run, panels}};

}  // namespace

KernelList grouped_matmul_q_kernels() { return kKernels; }

}  // namespace tern::cuda
