// grouped_matmul: a list of tiles, each with rows of one expert, is made on the device, where the experts' bounds are;
// then the kernels of product.h take their rows from it. Quantised weights are expanded first, of experts that have
// rows.
#include <algorithm>
#include <array>

#include "backends/cuda/expert_tiles.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/product.h"

namespace tern::cuda {
namespace {

constexpr int kX = TERN_GROUPED_MATMUL_X, kW = TERN_GROUPED_MATMUL_W, kBias = TERN_GROUPED_MATMUL_BIAS;
constexpr int kOffsets = TERN_GROUPED_MATMUL_OFFSETS, kY = TERN_GROUPED_MATMUL_Y;

bool is_forward(const tern_op_desc& op) {
  return static_cast<const tern_grouped_matmul_attrs*>(op.attrs)->transpose_w != 0;
}
std::int64_t num_experts(const tern_tensor_desc& offsets) { return offsets.shape[0] - 1; }

ProductSpec spec_of(const tern_op_desc& op) {
  const auto &x = op.args[kX], &w = op.args[kW], &y = op.args[kY];
  const bool forward = is_forward(op);
  const std::int64_t experts = num_experts(op.args[kOffsets]);
  const ExpertRows rows = expert_rows(x, y);
  ProductSpec spec;
  spec.grouped = true;
  spec.a = {x.dtype, rows.row, x.strides[2], 0};
  spec.a_sub = rows.parts > 1 ? rows.sub : 0;
  spec.parts = rows.parts;
  spec.m = std::max<std::int64_t>(x.shape[0] * x.shape[1] / experts, 1);  // what an expert has of them
  spec.n = y.shape[2];
  spec.k = x.shape[2];
  spec.batch = experts;
  spec.compute = static_cast<const tern_grouped_matmul_attrs*>(op.attrs)->compute;
  spec.few_alike = (op.needs & TERN_NEED_ROW_INVARIANT) != 0;
  spec.b = {w.dtype, w.strides[forward ? 1 : 2], w.strides[forward ? 2 : 1], w.strides[0]};
  return spec;
}

// Rows of a tile of the list.
int step_of(const tern_op_desc& op, const Facts& facts) { return rows_of_tile(plan_product(spec_of(op), facts)); }

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(kX), &w = desc.arg(kW), &offsets = desc.arg(kOffsets);
  const bool forward = is_forward(desc.op);
  Check check(desc, reason);
  check.floats({kX, kW, kY, kBias})
      .rank(kX, 3)
      .rank(kW, 3)
      .rank(kY, 3)
      .rank(kBias, 2)
      .rank(kOffsets, 1)
      .that(is_small_float(desc.attrs<tern_grouped_matmul_attrs>().compute),
            "products are computed in f32, bf16 or f16");
  if (!check.ok()) return false;
  const std::int64_t experts = num_experts(offsets);
  return check.that(experts >= 1, "offsets name no expert")
      .dim(kW, 0, experts)
      .dim(kY, 0, x.shape[0])
      .dim(kY, 1, x.shape[1])
      .dim(kX, 2, w.shape[forward ? 2 : 1])
      .dim(kY, 2, w.shape[forward ? 1 : 2])
      .that(forward || !desc.present(kBias), "the gradient has no bias")
      .dim(kBias, 0, experts)
      .dim(kBias, 1, w.shape[1])
      .that(x.shape[0] * x.shape[1] < INT32_MAX, "there are too many rows")
      .ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(kX);
  return expert_tiles_bytes(x.shape[0] * x.shape[1], num_experts(desc.arg(kOffsets)), step_of(desc.op, desc.device));
}

Functions functions(const PlanDesc& desc) {
  const ProductSpec spec = spec_of(desc.op);
  Functions list = product_functions(plan_product(spec, desc.device), spec);
  list.emplace_back(kExpertTilesFunction);
  return list;
}

void run(const Launch& launch) {
  const TensorView &x = launch[kX], &y = launch[kY];
  const ProductSpec spec = spec_of(launch.planned());
  const ProductPlan plan = plan_product(spec, launch.device());
  const std::int64_t experts = num_experts(launch[kOffsets].desc), rows = x.dim(0) * x.dim(1);
  if (y.dim(1) == 0 || y.dim(2) == 0) return;
  run_expert_tiles(launch.call(kProductFunctions), launch[kOffsets], launch.workspace(), rows, rows_of_tile(plan));
  const ExpertRows out = expert_rows(y.desc, x.desc);
  ProductCall call;
  call.m = rows;
  call.n = y.dim(2);
  call.k = x.dim(2);
  call.a = x.planes[0];
  call.b = launch[kW].planes[0];
  call.take_bias(launch[kBias]);
  call.out = y.planes[0];
  call.out_dtype = y.dtype();
  call.out_row = out.row;
  call.out_sub = out.sub;
  call.out_col = y.stride(2);
  call.adds = launch.accumulates(kY);
  call.tiles = launch.workspace();
  call.num_tiles = num_expert_tiles(rows, experts, rows_of_tile(plan));
  run_product(launch, 0, 0, plan, spec, call);
}

// ---------------------------------------------------------------- gradients of weights and biases

constexpr int kDy = TERN_GROUPED_MATMUL_BACKWARD_DY, kGiven = TERN_GROUPED_MATMUL_BACKWARD_X;
constexpr int kBounds = TERN_GROUPED_MATMUL_BACKWARD_OFFSETS, kDw = TERN_GROUPED_MATMUL_BACKWARD_DW;
constexpr int kDbias = TERN_GROUPED_MATMUL_BACKWARD_DBIAS;

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto &dy = desc.arg(kDy), &x = desc.arg(kGiven), &offsets = desc.arg(kBounds);
  Check check(desc, reason);
  check.floats({kDy, kGiven, kDw, kDbias})
      .rank(kDy, 3)
      .rank(kGiven, 3)
      .rank(kBounds, 1)
      .rank(kDw, 3)
      .rank(kDbias, 2)
      .that(is_small_float(desc.attrs<tern_grouped_matmul_backward_attrs>().compute),
            "products are computed in f32, bf16 or f16")
      .that(desc.present(kDw) || desc.present(kDbias), "neither dw nor dbias is there");
  if (!check.ok()) return false;
  const std::int64_t experts = num_experts(offsets);
  return check.that(experts >= 1, "offsets name no expert")
      .dim(kGiven, 0, dy.shape[0])
      .dim(kGiven, 1, dy.shape[1])
      .dim(kDw, 0, experts)
      .dim(kDw, 1, dy.shape[2])
      .dim(kDw, 2, x.shape[2])
      .dim(kDbias, 0, experts)
      .dim(kDbias, 1, dy.shape[2])
      .that(experts <= 65535, "there are more than 65,535 experts")
      .that(x.shape[0] * x.shape[1] < INT32_MAX, "there are too many rows")
      .ok();
}

// dw[e] = dy^T x: the sum goes over the rows of the expert.
ProductSpec gradient_spec(const tern_op_desc& op) {
  const auto &dy = op.args[kDy], &x = op.args[kGiven];
  const ExpertRows of_dy = expert_rows(dy, x), of_x = expert_rows(x, dy);
  ProductSpec spec;
  spec.bounded = true;
  spec.a = {dy.dtype, dy.strides[2], of_dy.row, 0};
  spec.b = {x.dtype, x.strides[2], of_x.row, 0};
  spec.sum_parts = of_dy.parts;
  spec.a_sub = of_dy.sub;
  spec.b_sub = of_x.sub;
  spec.m = dy.shape[2];
  spec.n = x.shape[2];
  spec.k = dy.shape[0] * dy.shape[1];
  spec.batch = num_experts(op.args[kBounds]);
  spec.compute = static_cast<const tern_grouped_matmul_backward_attrs*>(op.attrs)->compute;
  return spec;
}

Functions backward_functions(const PlanDesc& desc) {
  Functions list = {"grouped_bias_gradient"};
  if (!desc.present(kDw)) return list;
  const ProductSpec spec = gradient_spec(desc.op);
  for (std::string& name : product_functions(plan_product(spec, desc.device), spec)) list.push_back(std::move(name));
  return list;
}

void run_backward(const Launch& launch) {
  const TensorView &dy = launch[kDy], &x = launch[kGiven], &dw = launch[kDw], &dbias = launch[kDbias];
  const std::int64_t experts = num_experts(launch[kBounds].desc);
  if (dw.present()) {
    const ProductSpec spec = gradient_spec(launch.planned());
    ProductCall call;
    call.m = dw.dim(1);
    call.n = dw.dim(2);
    call.k = dy.dim(0) * dy.dim(1);
    call.batch = experts;
    call.a = dy.planes[0];
    call.b = x.planes[0];
    call.out = dw.planes[0];
    call.out_dtype = dw.dtype();
    call.out_batch = dw.stride(0);
    call.out_row = dw.stride(1);
    call.out_col = dw.stride(2);
    call.adds = launch.accumulates(kDw);
    call.bounds = launch[kBounds].planes[0];
    run_product(launch, 1, 0, plan_product(spec, launch.device()), spec, call);
  }
  if (dbias.present()) {
    launch.call(0)
        .arg(dy)
        .arg(launch[kBounds].planes[0])
        .arg(dbias)
        .arg(dy.stride(0))
        .arg(dy.stride(1))
        .arg(dy.stride(2))
        .arg(dbias.stride(0))
        .arg(dbias.stride(1))
        .arg(static_cast<std::int32_t>(dy.dim(1)))
        .arg(static_cast<std::int32_t>(dy.dim(0) * dy.dim(1)))
        .arg(static_cast<std::int32_t>(dy.dim(2)))
        .run({parts_of(dy.dim(2), 32), experts, 1}, {256, 1, 1});
  }
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_GROUPED_MATMUL, "tiles", supports, workspace, functions, run},
    {TERN_OP_GROUPED_MATMUL_BACKWARD, "experts", supports_backward, nullptr, backward_functions, run_backward}};

}  // namespace

KernelList grouped_matmul_kernels() { return kKernels; }

}  // namespace tern::cuda
