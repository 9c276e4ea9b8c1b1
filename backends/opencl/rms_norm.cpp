// Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.
#include "backends/opencl/rows.h"

namespace tern::opencl {
namespace {

// The struct NormSizes of cl/rms_norm.cl.
struct Sizes {
  std::int64_t rows, width;
  std::int64_t x[2], residual[2], weight, y[2], sum[2], rstd;
  float eps, weight_offset;
};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_RMS_NORM_X);
  return Check(desc, reason)
      .floats({TERN_RMS_NORM_X, TERN_RMS_NORM_RESIDUAL, TERN_RMS_NORM_WEIGHT, TERN_RMS_NORM_Y, TERN_RMS_NORM_SUM})
      .dtype(TERN_RMS_NORM_RSTD, TERN_F32)
      .rank(TERN_RMS_NORM_X, 2)
      .same_shape({TERN_RMS_NORM_X, TERN_RMS_NORM_RESIDUAL, TERN_RMS_NORM_Y, TERN_RMS_NORM_SUM})
      .dim(TERN_RMS_NORM_WEIGHT, 0, x.shape[1])
      .dim(TERN_RMS_NORM_RSTD, 0, x.shape[0])
      .that(desc.present(TERN_RMS_NORM_SUM) == desc.present(TERN_RMS_NORM_RESIDUAL),
            "sum must be present iff residual is")
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  tile_defines(defines, row_tile(desc.device), "ROWS")
      .tensor("x", desc, TERN_RMS_NORM_X)
      .tensor("residual", desc, TERN_RMS_NORM_RESIDUAL)
      .tensor("weight", desc, TERN_RMS_NORM_WEIGHT)
      .tensor("y", desc, TERN_RMS_NORM_Y)
      .tensor("sum", desc, TERN_RMS_NORM_SUM)
      .tensor("rstd", desc, TERN_RMS_NORM_RSTD);
  return {{"rms_norm", "rms_norm", defines.text()}};
}

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_rms_norm_attrs>();
  const RowTile tile = row_tile(launch.device());
  const TensorView& x = launch[TERN_RMS_NORM_X];
  Sizes sizes{};
  sizes.rows = x.dim(0);
  sizes.width = x.dim(1);
  take_strides(x, sizes.x);
  take_strides(launch[TERN_RMS_NORM_RESIDUAL], sizes.residual);
  take_strides(launch[TERN_RMS_NORM_Y], sizes.y);
  take_strides(launch[TERN_RMS_NORM_SUM], sizes.sum);
  sizes.weight = stride_of(launch[TERN_RMS_NORM_WEIGHT]);
  sizes.rstd = stride_of(launch[TERN_RMS_NORM_RSTD]);
  sizes.eps = attrs.eps;
  sizes.weight_offset = attrs.weight_offset;
  Call call = launch.call(0);
  for (int i = 0; i < TERN_RMS_NORM_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(sizes).run(parts_of(sizes.rows, tile.rows) * tile.group, tile.group);
}

// The struct NormSizes of cl/rms_norm_backward.cl.
struct BackwardSizes {
  std::int64_t rows, width;
  std::int64_t dy[2], x[2], weight, rstd, dsum[2], dx[2];
  float weight_offset;
};

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_RMS_NORM_BACKWARD_X);
  return Check(desc, reason)
      .floats({TERN_RMS_NORM_BACKWARD_DY, TERN_RMS_NORM_BACKWARD_X, TERN_RMS_NORM_BACKWARD_WEIGHT,
               TERN_RMS_NORM_BACKWARD_DSUM, TERN_RMS_NORM_BACKWARD_DX})
      .dtype(TERN_RMS_NORM_BACKWARD_RSTD, TERN_F32)
      .dtype(TERN_RMS_NORM_BACKWARD_DWEIGHT, TERN_F32)
      .rank(TERN_RMS_NORM_BACKWARD_X, 2)
      .same_shape(
          {TERN_RMS_NORM_BACKWARD_X, TERN_RMS_NORM_BACKWARD_DY, TERN_RMS_NORM_BACKWARD_DSUM, TERN_RMS_NORM_BACKWARD_DX})
      .dim(TERN_RMS_NORM_BACKWARD_WEIGHT, 0, x.shape[1])
      .dim(TERN_RMS_NORM_BACKWARD_RSTD, 0, x.shape[0])
      .dim(TERN_RMS_NORM_BACKWARD_DWEIGHT, 0, x.shape[1])
      .ok();
}

std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_RMS_NORM_BACKWARD_X);
  return desc.present(TERN_RMS_NORM_BACKWARD_DWEIGHT) ? partial_bytes(x.shape[0], x.shape[1]) : 0;
}

std::vector<Function> functions_backward(const PlanDesc& desc) {
  const RowTile tile = row_tile(desc.device);
  Defines defines, sums;
  for (Defines* each : {&defines, &sums}) {
    each->tensor("dy", desc, TERN_RMS_NORM_BACKWARD_DY)
        .tensor("x", desc, TERN_RMS_NORM_BACKWARD_X)
        .tensor("weight", desc, TERN_RMS_NORM_BACKWARD_WEIGHT)
        .tensor("dsum", desc, TERN_RMS_NORM_BACKWARD_DSUM)
        .tensor("dx", desc, TERN_RMS_NORM_BACKWARD_DX);
  }
  tile_defines(defines, tile, "ROWS");
  sum_defines(sums, tile, "ROWS");
  std::vector<Function> list = {{"rms_norm_backward", "rms_norm_dx", defines.text()}};
  if (desc.present(TERN_RMS_NORM_BACKWARD_DWEIGHT)) {
    list.push_back({"rms_norm_backward", "rms_norm_dweight", sums.text()});
    list.push_back({"rms_norm_backward", "column_sum", sums.text()});
  }
  return list;
}

void run_backward(const Launch& launch) {
  const RowTile tile = row_tile(launch.device());
  const TensorView &dy = launch[TERN_RMS_NORM_BACKWARD_DY], &x = launch[TERN_RMS_NORM_BACKWARD_X];
  const TensorView &weight = launch[TERN_RMS_NORM_BACKWARD_WEIGHT], &rstd = launch[TERN_RMS_NORM_BACKWARD_RSTD];
  const TensorView &dsum = launch[TERN_RMS_NORM_BACKWARD_DSUM], &dx = launch[TERN_RMS_NORM_BACKWARD_DX];
  BackwardSizes sizes{};
  sizes.rows = x.dim(0);
  sizes.width = x.dim(1);
  take_strides(dy, sizes.dy);
  take_strides(x, sizes.x);
  take_strides(dsum, sizes.dsum);
  take_strides(dx, sizes.dx);
  sizes.weight = stride_of(weight);
  sizes.rstd = stride_of(rstd);
  sizes.weight_offset = launch.attr<tern_rms_norm_backward_attrs>().weight_offset;
  if (launch[TERN_RMS_NORM_BACKWARD_DWEIGHT].present()) {
    const std::int64_t blocks = parts_of(sizes.rows, kSummedRows);
    launch.call(1)
        .arg(dy)
        .arg(x)
        .arg(rstd)
        .arg(launch.workspace())
        .arg(sizes)
        .run({parts_of(sizes.width, tile.width), blocks, 1}, {plain_group(launch.device()), 1, 1});
    sum_columns(launch.call(2), launch, launch.workspace(), TERN_RMS_NORM_BACKWARD_DWEIGHT, blocks);
  }
  launch.call(0).arg(dy).arg(x).arg(weight).arg(rstd).arg(dsum).arg(dx).arg(sizes).run(
      parts_of(sizes.rows, tile.rows) * tile.group, tile.group);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_RMS_NORM, "rms_norm", supports, nullptr, functions, run},
                                    {TERN_OP_RMS_NORM_BACKWARD, "rms_norm_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList rms_norm_kernels() { return kKernels; }

}  // namespace tern::opencl
