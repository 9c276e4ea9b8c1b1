// Su et al., "RoFormer", 2021; with the norm of queries and keys before it, as Qwen3 has it.
#include "backends/opencl/rows.h"

namespace tern::opencl {
namespace {

// The struct RopeSizes of cl/rope.cl.
struct Sizes {
  std::int64_t rows, heads, head_dim, half_of;
  std::int64_t x[3], cos[2], sin[2], y[3], positions, tables;
  std::int32_t interleaved, inverse, accumulate;
};

// x [rows, heads, head_dim], positions [rows], cos and sin [positions, rotary / 2]: the last three from `positions` on.
void check_tables(Check& check, const PlanDesc& desc, int x, int positions) {
  const int cos = positions + 1;
  const int sin = positions + 2;
  check.rank(x, 3).dtype(positions, TERN_I32).rank(positions, 1).dim(positions, 0, desc.arg(x).shape[0]);
  check.dtype(cos, TERN_F32).dtype(sin, TERN_F32).rank(cos, 2).same_shape({cos, sin});
  check.that(desc.present(cos) == desc.present(positions) && desc.present(sin) == desc.present(positions),
             "cos and sin come with positions");
  check.that(!desc.present(cos) || 2 * desc.arg(cos).shape[1] <= desc.arg(x).shape[2],
             "cos has more columns than a head has pairs");
}

bool supports(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  check.floats({TERN_ROPE_X, TERN_ROPE_Y}).same_shape({TERN_ROPE_X, TERN_ROPE_Y});
  check_tables(check, desc, TERN_ROPE_X, TERN_ROPE_POSITIONS);
  return check.ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  tile_defines(defines, row_tile(desc.device), "ROWS").tensor("x", desc, TERN_ROPE_X).tensor("y", desc, TERN_ROPE_Y);
  return {{"rope", "rope", defines.text()}};
}

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_rope_attrs>();
  const RowTile tile = row_tile(launch.device());
  const TensorView &x = launch[TERN_ROPE_X], &cos = launch[TERN_ROPE_COS];
  Sizes sizes{};
  sizes.rows = x.dim(0);
  sizes.heads = x.dim(1);
  sizes.head_dim = x.dim(2);
  sizes.half_of = cos.dim(1);
  sizes.tables = cos.dim(0);
  take_strides(x, sizes.x);
  take_strides(cos, sizes.cos);
  take_strides(launch[TERN_ROPE_SIN], sizes.sin);
  take_strides(launch[TERN_ROPE_Y], sizes.y);
  sizes.positions = 1;
  sizes.interleaved = attrs.interleaved;
  sizes.inverse = attrs.inverse;
  sizes.accumulate = launch.accumulates(TERN_ROPE_Y) ? 1 : 0;
  Call call = launch.call(0);
  for (int i = 0; i < TERN_ROPE_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(sizes).run(parts_of(sizes.rows, tile.rows) * tile.group, tile.group);
}

// The struct NormSizes of cl/qk_norm_rope.cl.
struct NormSizes {
  std::int64_t rows, heads, head_dim, half_of;
  std::int64_t x[3], weight, cos[2], sin[2], y[3], rstd[2], tables;
  float eps, weight_offset;
  std::int32_t interleaved;
};

bool supports_norm(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_QK_NORM_ROPE_X);
  Check check(desc, reason);
  check.floats({TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_WEIGHT, TERN_QK_NORM_ROPE_Y});
  check.same_shape({TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_Y});
  check_tables(check, desc, TERN_QK_NORM_ROPE_X, TERN_QK_NORM_ROPE_POSITIONS);
  check.dim(TERN_QK_NORM_ROPE_WEIGHT, 0, x.shape[2]);
  check.dtype(TERN_QK_NORM_ROPE_RSTD, TERN_F32).rank(TERN_QK_NORM_ROPE_RSTD, 2);
  check.dim(TERN_QK_NORM_ROPE_RSTD, 0, x.shape[0]).dim(TERN_QK_NORM_ROPE_RSTD, 1, x.shape[1]);
  return check.ok();
}

std::vector<Function> functions_norm(const PlanDesc& desc) {
  Defines defines;
  tile_defines(defines, row_tile(desc.device), "UNITS")
      .tensor("x", desc, TERN_QK_NORM_ROPE_X)
      .tensor("weight", desc, TERN_QK_NORM_ROPE_WEIGHT)
      .tensor("y", desc, TERN_QK_NORM_ROPE_Y)
      .tensor("rstd", desc, TERN_QK_NORM_ROPE_RSTD);
  return {{"qk_norm_rope", "qk_norm_rope", defines.text()}};
}

void run_norm(const Launch& launch) {
  const auto& attrs = launch.attr<tern_qk_norm_rope_attrs>();
  const RowTile tile = row_tile(launch.device());
  const TensorView &x = launch[TERN_QK_NORM_ROPE_X], &cos = launch[TERN_QK_NORM_ROPE_COS];
  NormSizes sizes{};
  sizes.rows = x.dim(0);
  sizes.heads = x.dim(1);
  sizes.head_dim = x.dim(2);
  sizes.half_of = cos.present() ? cos.dim(1) : 0;
  sizes.tables = cos.present() ? cos.dim(0) : 0;
  take_strides(x, sizes.x);
  sizes.weight = stride_of(launch[TERN_QK_NORM_ROPE_WEIGHT]);
  take_strides(cos, sizes.cos);
  take_strides(launch[TERN_QK_NORM_ROPE_SIN], sizes.sin);
  take_strides(launch[TERN_QK_NORM_ROPE_Y], sizes.y);
  take_strides(launch[TERN_QK_NORM_ROPE_RSTD], sizes.rstd);
  sizes.eps = attrs.eps;
  sizes.weight_offset = attrs.weight_offset;
  sizes.interleaved = attrs.interleaved;
  Call call = launch.call(0);
  for (int i = 0; i < TERN_QK_NORM_ROPE_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(sizes).run(parts_of(sizes.rows * sizes.heads, tile.rows) * tile.group, tile.group);
}

// The struct NormSizes of cl/qk_norm_rope_backward.cl.
struct BackwardSizes {
  std::int64_t rows, heads, head_dim, half_of;
  std::int64_t dy[3], x[3], weight, rstd[2], cos[2], sin[2], dx[3], tables;
  float weight_offset;
  std::int32_t interleaved;
};

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_QK_NORM_ROPE_BACKWARD_X);
  Check check(desc, reason);
  check.floats({TERN_QK_NORM_ROPE_BACKWARD_DY, TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_WEIGHT,
                TERN_QK_NORM_ROPE_BACKWARD_DX});
  check.same_shape({TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_DY, TERN_QK_NORM_ROPE_BACKWARD_DX});
  check_tables(check, desc, TERN_QK_NORM_ROPE_BACKWARD_X, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS);
  check.that(desc.present(TERN_QK_NORM_ROPE_BACKWARD_WEIGHT) || !desc.present(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT),
             "dweight comes with a weight");
  check.dim(TERN_QK_NORM_ROPE_BACKWARD_WEIGHT, 0, x.shape[2]).dim(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, 0, x.shape[2]);
  check.dtype(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, TERN_F32).dtype(TERN_QK_NORM_ROPE_BACKWARD_RSTD, TERN_F32);
  check.rank(TERN_QK_NORM_ROPE_BACKWARD_RSTD, 2);
  check.dim(TERN_QK_NORM_ROPE_BACKWARD_RSTD, 0, x.shape[0]).dim(TERN_QK_NORM_ROPE_BACKWARD_RSTD, 1, x.shape[1]);
  return check.ok();
}

std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_QK_NORM_ROPE_BACKWARD_X);
  const bool sums = desc.present(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT);
  return sums ? partial_bytes(x.shape[0] * x.shape[1], x.shape[2]) : 0;
}

std::vector<Function> functions_backward(const PlanDesc& desc) {
  const RowTile tile = row_tile(desc.device);
  Defines defines, sums;
  for (Defines* each : {&defines, &sums}) {
    each->tensor("dy", desc, TERN_QK_NORM_ROPE_BACKWARD_DY)
        .tensor("x", desc, TERN_QK_NORM_ROPE_BACKWARD_X)
        .tensor("weight", desc, TERN_QK_NORM_ROPE_BACKWARD_WEIGHT)
        .tensor("dx", desc, TERN_QK_NORM_ROPE_BACKWARD_DX);
  }
  tile_defines(defines, tile, "UNITS");
  sum_defines(sums, tile, "UNITS");
  std::vector<Function> list = {{"qk_norm_rope_backward", "qk_norm_rope_dx", defines.text()}};
  if (desc.present(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT)) {
    list.push_back({"qk_norm_rope_backward", "qk_norm_rope_dweight", sums.text()});
    list.push_back({"qk_norm_rope_backward", "column_sum", sums.text()});
  }
  return list;
}

void run_backward(const Launch& launch) {
  const auto& attrs = launch.attr<tern_qk_norm_rope_backward_attrs>();
  const RowTile tile = row_tile(launch.device());
  const TensorView &dy = launch[TERN_QK_NORM_ROPE_BACKWARD_DY], &x = launch[TERN_QK_NORM_ROPE_BACKWARD_X];
  const TensorView& weight = launch[TERN_QK_NORM_ROPE_BACKWARD_WEIGHT];
  const TensorView &rstd = launch[TERN_QK_NORM_ROPE_BACKWARD_RSTD], &cos = launch[TERN_QK_NORM_ROPE_BACKWARD_COS];
  const TensorView &sin = launch[TERN_QK_NORM_ROPE_BACKWARD_SIN], &dx = launch[TERN_QK_NORM_ROPE_BACKWARD_DX];
  const TensorView& positions = launch[TERN_QK_NORM_ROPE_BACKWARD_POSITIONS];
  BackwardSizes sizes{};
  sizes.rows = x.dim(0);
  sizes.heads = x.dim(1);
  sizes.head_dim = x.dim(2);
  sizes.half_of = cos.present() ? cos.dim(1) : 0;
  sizes.tables = cos.present() ? cos.dim(0) : 0;
  take_strides(dy, sizes.dy);
  take_strides(x, sizes.x);
  sizes.weight = stride_of(weight);
  take_strides(rstd, sizes.rstd);
  take_strides(cos, sizes.cos);
  take_strides(sin, sizes.sin);
  take_strides(dx, sizes.dx);
  sizes.weight_offset = attrs.weight_offset;
  sizes.interleaved = attrs.interleaved;
  const std::int64_t units = sizes.rows * sizes.heads;
  if (launch[TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT].present()) {
    const std::int64_t blocks = parts_of(units, kSummedRows);
    const std::int64_t chunks =
        parts_of(sizes.half_of, tile.width) + parts_of(sizes.head_dim - 2 * sizes.half_of, tile.width);
    Call call = launch.call(1);
    call.arg(dy).arg(x).arg(rstd).arg(positions).arg(cos).arg(sin).arg(launch.workspace()).arg(sizes);
    call.run({chunks, blocks, 1}, {plain_group(launch.device()), 1, 1});
    sum_columns(launch.call(2), launch, launch.workspace(), TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, blocks);
  }
  Call call = launch.call(0);
  call.arg(dy).arg(x).arg(weight).arg(rstd).arg(positions).arg(cos).arg(sin).arg(dx).arg(sizes);
  call.run(parts_of(units, tile.rows) * tile.group, tile.group);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ROPE, "rope", supports, nullptr, functions, run},
    {TERN_OP_QK_NORM_ROPE, "qk_norm_rope", supports_norm, nullptr, functions_norm, run_norm},
    {TERN_OP_QK_NORM_ROPE_BACKWARD, "qk_norm_rope_backward", supports_backward, workspace_backward, functions_backward,
     run_backward}};

}  // namespace

KernelList rope_kernels() { return kKernels; }

}  // namespace tern::opencl
