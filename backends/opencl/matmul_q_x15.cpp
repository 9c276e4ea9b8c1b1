// matmul_q in x15, for devices with dot products of packed bytes: rows of x become whole numbers once, then each group
// of work-items takes a few rows of the weight as they are stored.
#include <algorithm>

#include "backends/opencl/kernels.h"
#include "backends/opencl/weight.h"

namespace tern::opencl {
namespace {

constexpr std::int64_t kShare = 64;  // work-items of a sum
constexpr std::int64_t kRows = 4;    // of x, for each row of the weight that is read
constexpr std::int64_t kOutputs = 2;

// As in cl/x15.cl.
struct X15 {
  std::int64_t x_row, x_col, y_row, y_col, bias_step;
  std::int32_t rows, outputs, inputs;
  std::int32_t x_type, y_type;
  std::int32_t bias_type;
  std::int32_t adds;
  std::int32_t reserved;
};

// Where the parts of x lie in the workspace.
struct Parts {
  std::uint64_t high, low, scales, sums, bytes;
};
Parts parts_of_rows(std::int64_t rows, std::int64_t inputs) {
  const auto bytes = [](std::int64_t count) { return static_cast<std::uint64_t>(round_up(count, 128)); };
  const std::uint64_t each = bytes(rows * inputs), scales = bytes(rows * inputs / 32 * 4);
  return {0, each, 2 * each, 2 * each + scales, 2 * each + scales + bytes(rows * inputs / 16 * 4)};
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_MATMUL_Q_X), &w = desc.arg(TERN_MATMUL_Q_W), &y = desc.arg(TERN_MATMUL_Q_Y);
  const auto& attrs = desc.attrs<tern_matmul_q_attrs>();
  Check check(desc, reason);
  check.that(attrs.compute == TERN_COMPUTE_X15, "it computes in x15 alone")
      .that(desc.device.integer_dot, "the device has no dot products of packed bytes, which x15 is for")
      .that(attrs.transpose_w != 0, "x15 is for the forward product")
      .floats({TERN_MATMUL_Q_X, TERN_MATMUL_Q_BIAS, TERN_MATMUL_Q_Y})
      .rank(TERN_MATMUL_Q_X, 2)
      .rank(TERN_MATMUL_Q_W, 2)
      .rank(TERN_MATMUL_Q_Y, 2)
      .that(packing_block(w.scheme.packing).elements > 0 || w.scheme.packing == TERN_PACK_ROW_INT8,
            "x15 is for weights in blocks and of int8");
  if (!check.ok() || !expands_weight(w, reason)) return false;
  const std::int64_t group = w.scheme.group_cols > 0 ? w.scheme.group_cols : w.shape[1];
  return check
      .that(w.shape[1] % 32 == 0 && (w.scheme.packing != TERN_PACK_ROW_INT8 || group % 32 == 0),
            "x15 takes rows and groups of whole blocks of 32")
      .that(x.shape[0] == y.shape[0] && x.shape[1] == w.shape[1] && y.shape[1] == w.shape[0],
            "the shapes of x, w and y do not fit each other")
      .rank(TERN_MATMUL_Q_BIAS, 1)
      .dim(TERN_MATMUL_Q_BIAS, 0, y.shape[1])
      .ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_MATMUL_Q_X);
  return parts_of_rows(x.shape[0], x.shape[1]).bytes;
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("PACKING", desc.arg(TERN_MATMUL_Q_W).scheme.packing);
  defines.set("SHARE", kShare).set("TM", kRows).set("TN", kOutputs);
  return {{"x15", "x15_rows", defines.text()}, {"x15", "x15_product", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_MATMUL_Q_X], &w = launch[TERN_MATMUL_Q_W], &y = launch[TERN_MATMUL_Q_Y];
  const TensorView& bias = launch[TERN_MATMUL_Q_BIAS];
  X15 p{x.stride(0), x.stride(1), y.stride(0), y.stride(1), bias.present() ? bias.stride(0) : 0};
  p.rows = static_cast<std::int32_t>(x.dim(0));
  p.outputs = static_cast<std::int32_t>(w.dim(0));
  p.inputs = static_cast<std::int32_t>(w.dim(1));
  p.x_type = x.dtype();
  p.y_type = y.dtype();
  p.bias_type = bias.present() ? bias.dtype() : -1;
  p.adds = launch.accumulates(TERN_MATMUL_Q_Y) ? 1 : 0;
  const Parts at = parts_of_rows(x.dim(0), x.dim(1));
  const Place high = launch.workspace(at.high), low = launch.workspace(at.low);
  const Place scales = launch.workspace(at.scales), sums = launch.workspace(at.sums);
  launch.call(0).arg(x).arg(high).arg(low).arg(scales).arg(sums).arg(p).run({x.dim(1) / 32, x.dim(0), 1},
                                                                            {plain_group(launch.device()), 1, 1});
  Call product = launch.call(1);
  product.arg(high).arg(low).arg(scales).arg(sums);
  weight_args(product, w);
  product.arg(bias).arg(y).arg(p);
  product.run({parts_of(p.outputs, kOutputs) * kShare, parts_of(p.rows, kRows), 1}, {kShare, 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MATMUL_Q, "x15", supports, workspace, functions, run}};

}  // namespace

KernelList matmul_q_x15_kernels() { return kKernels; }

}  // namespace tern::opencl
