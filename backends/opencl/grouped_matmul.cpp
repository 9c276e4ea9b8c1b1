// grouped_matmul: a list of tiles, each with rows of one expert, is made on the device, where the experts' bounds are;
// then the kernels of product.cl take their rows from it.
#include <algorithm>
#include <array>

#include "backends/opencl/kernels.h"
#include "backends/opencl/product.h"
#include "backends/opencl/weight.h"

namespace tern::opencl {
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
  ProductSpec spec;
  spec.grouped = true;
  spec.a = {x.dtype, x.strides[0], x.strides[2], 0};
  spec.m = std::max<std::int64_t>(x.shape[0] * x.shape[1] / experts, 1);  // what an expert has of them
  spec.n = y.shape[2];
  spec.k = x.shape[2];
  spec.compute = static_cast<const tern_grouped_matmul_attrs*>(op.attrs)->compute;
  spec.packing = w.scheme.packing;
  spec.few_alike = (op.needs & TERN_NEED_ROW_INVARIANT) != 0;
  if (w.scheme.packing == TERN_PACK_NONE) {
    spec.b = {w.dtype, w.strides[forward ? 1 : 2], w.strides[forward ? 2 : 1], w.strides[0]};
  } else {  // an expert begins so many rows after the one before
    spec.b = {w.dtype, forward ? 0 : 1, forward ? 1 : 0, w.shape[0] / experts};
  }
  return spec;
}

ProductPlan plan_of(const ProductSpec& spec, const Facts& facts) {
  return plan_product(first_tile(spec, facts), spec, facts);
}

// Slots of the list: grouped_tiles of cl/grouped.cl.
std::int64_t num_tiles(std::int64_t rows, std::int64_t experts, std::int64_t step) { return rows / step + experts + 1; }

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(kX), &w = desc.arg(kW), &offsets = desc.arg(kOffsets);
  const bool quantised = w.scheme.packing != TERN_PACK_NONE;
  Check check(desc, reason);
  check.floats({kX, kY, kBias})
      .rank(kX, 3)
      .rank(kY, 3)
      .rank(kBias, 2)
      .rank(kOffsets, 1)
      .rank(kW, quantised ? 2 : 3)
      .that(is_small_float(desc.attrs<tern_grouped_matmul_attrs>().compute),
            "products are computed in f32, bf16 or f16");
  if (!check.ok()) return false;
  const std::int64_t experts = num_experts(offsets);
  check.that(experts >= 1, "offsets name no expert")
      .dim(kY, 0, x.shape[0])
      .dim(kY, 1, x.shape[1])
      .that(!quantised || experts < 1 || w.shape[0] % experts == 0, "w has no equal number of rows for each expert");
  if (!check.ok()) return false;
  const bool forward = is_forward(desc.op);
  const std::int64_t out = quantised ? w.shape[0] / experts : w.shape[1], in = quantised ? w.shape[1] : w.shape[2];
  check.that(quantised || w.shape[0] == experts, "w and offsets differ in experts")
      .dim(kX, 2, forward ? in : out)
      .dim(kY, 2, forward ? out : in)
      .that(forward || !desc.present(kBias), "the gradient has no bias")
      .dim(kBias, 0, experts)
      .dim(kBias, 1, out)
      .that(x.shape[0] * x.shape[1] < INT32_MAX, "there are too many rows");
  if (!check.ok()) return false;
  return quantised ? expands_weight(w, reason) : check.floats({kW}).ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(kX);
  const int step = rows_of_tile(plan_of(spec_of(desc.op), desc.device));
  return static_cast<std::uint64_t>(num_tiles(x.shape[0] * x.shape[1], num_experts(desc.arg(kOffsets)), step)) * 16;
}

std::vector<Function> functions(const PlanDesc& desc) {
  const ProductSpec spec = spec_of(desc.op);
  return {product_function(plan_of(spec, desc.device), spec),
          {"grouped", "grouped_tiles", Defines().set("V", 4).text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[kX], &w = launch[kW], &bias = launch[kBias], &y = launch[kY];
  const ProductSpec spec = spec_of(launch.planned());
  const ProductPlan plan = plan_of(spec, launch.device());
  const std::int64_t experts = num_experts(launch[kOffsets].desc), rows = x.dim(0) * x.dim(1);
  const int step = rows_of_tile(plan);
  if (y.elements() == 0) return;
  launch.call(1)
      .arg(launch[kOffsets])
      .arg(launch.workspace())
      .arg(static_cast<std::int32_t>(experts))
      .arg(static_cast<std::int32_t>(rows))
      .arg(std::int32_t{step})
      .run(experts + 1, plain_group(launch.device()));
  ProductCall call;
  call.m = rows;
  call.n = y.dim(2);
  call.k = x.dim(2);
  call.a = x.planes[0];
  call.b = w.planes[0];
  call.weight = &w;
  call.take_bias(bias);
  call.out = y.planes[0];
  call.out_dtype = y.dtype();
  call.out_row = y.stride(0);
  call.out_sub = y.stride(1);
  call.out_col = y.stride(2);
  call.adds = launch.accumulates(kY);
  call.parts = x.dim(1);
  call.a_sub = x.stride(1);
  call.tiles = launch.workspace();
  call.num_tiles = num_tiles(rows, experts, step);
  run_product(launch.call(0), plan, spec, call);
}

// ---------------------------------------------------------------- gradients of weights and biases

// As in cl/grouped.cl.
struct Gradient {
  std::int64_t dy_row, dy_sub, dy_col;
  std::int64_t x_row, x_sub, x_col;
  std::int64_t out_expert, out_row, out_col;
  std::int32_t parts, rows;
  std::int32_t m, n;
  std::int32_t round;
  std::int32_t adds;
};

constexpr int kDy = TERN_GROUPED_MATMUL_BACKWARD_DY, kGiven = TERN_GROUPED_MATMUL_BACKWARD_X;
constexpr int kBounds = TERN_GROUPED_MATMUL_BACKWARD_OFFSETS, kDw = TERN_GROUPED_MATMUL_BACKWARD_DW;
constexpr int kDbias = TERN_GROUPED_MATMUL_BACKWARD_DBIAS;

struct GradientTile {
  int vector, rows, columns;
};
GradientTile gradient_tile(const Facts& facts, std::int64_t in) {
  if (!facts.cpu) return {4, 4, 1};
  return in >= 32 ? GradientTile{16, 8, 2} : in >= 16 ? GradientTile{16, 8, 1} : GradientTile{4, 8, 1};
}

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
      .that(x.shape[0] * x.shape[1] < INT32_MAX, "there are too many rows")
      .ok();
}

std::vector<Function> backward_functions(const PlanDesc& desc) {
  const GradientTile tile = gradient_tile(desc.device, desc.arg(kGiven).shape[2]);
  Defines defines;
  defines.tensor("dy", desc, kDy).tensor("x", desc, kGiven);
  defines.set("V", tile.vector).set("TM", tile.rows).set("TN", tile.columns);
  return {{"grouped", "grouped_weight_gradient", defines.text()}, {"grouped", "grouped_bias_gradient", defines.text()}};
}

void run_backward(const Launch& launch) {
  const TensorView &dy = launch[kDy], &x = launch[kGiven], &dw = launch[kDw], &dbias = launch[kDbias];
  const std::int64_t experts = num_experts(launch[kBounds].desc), group = plain_group(launch.device());
  const GradientTile tile = gradient_tile(launch.device(), launch.planned().args[kGiven].shape[2]);
  Gradient gradient{};
  gradient.dy_row = dy.stride(0);
  gradient.dy_sub = dy.stride(1);
  gradient.dy_col = dy.stride(2);
  gradient.x_row = x.stride(0);
  gradient.x_sub = x.stride(1);
  gradient.x_col = x.stride(2);
  gradient.parts = static_cast<std::int32_t>(dy.dim(1));
  gradient.rows = static_cast<std::int32_t>(dy.dim(0) * dy.dim(1));
  gradient.m = static_cast<std::int32_t>(dy.dim(2));
  gradient.n = static_cast<std::int32_t>(x.dim(2));
  gradient.round = launch.attr<tern_grouped_matmul_backward_attrs>().compute;
  if (dw.present()) {
    gradient.out_expert = dw.stride(0);
    gradient.out_row = dw.stride(1);
    gradient.out_col = dw.stride(2);
    gradient.adds = launch.accumulates(kDw) ? 1 : 0;
    launch.call(0)
        .arg(dy)
        .arg(x)
        .arg(launch[kBounds])
        .arg(dw)
        .arg(gradient)
        .run({parts_of(x.dim(2), tile.vector * tile.columns), parts_of(dy.dim(2), tile.rows), experts}, {group, 1, 1});
  }
  if (dbias.present()) {
    gradient.out_expert = dbias.stride(0);
    gradient.out_col = dbias.stride(1);
    gradient.adds = launch.accumulates(kDbias) ? 1 : 0;
    launch.call(1)
        .arg(dy)
        .arg(launch[kBounds])
        .arg(dbias)
        .arg(gradient)
        .run({parts_of(dy.dim(2), tile.vector), experts, 1}, {group, 1, 1});
  }
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_GROUPED_MATMUL, "tiles", supports, workspace, functions, run},
    {TERN_OP_GROUPED_MATMUL_BACKWARD, "experts", supports_backward, nullptr, backward_functions, run_backward}};

}  // namespace

KernelList grouped_matmul_kernels() { return kKernels; }

}  // namespace tern::opencl
