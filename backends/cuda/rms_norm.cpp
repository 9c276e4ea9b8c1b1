// Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.
#include "backends/cuda/rows.h"

namespace tern::cuda {
namespace {

// The struct RmsNormSizes of cu/rms_norm.cu.
struct Sizes {
  std::int64_t rows, width;
  std::int64_t x[2], residual[2], weight, y[2], sum[2], rstd;
  float eps, weight_offset;
  std::int32_t team;
};

constexpr std::int64_t kKept = 4;          // KEPT of cu/rms_norm.cu
constexpr std::int64_t kKeptBackward = 2;  // of cu/rms_norm_backward.cu

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

int dtype_of(const tern_op_desc& op) {
  return common_dtype(op, {TERN_RMS_NORM_X, TERN_RMS_NORM_RESIDUAL, TERN_RMS_NORM_Y, TERN_RMS_NORM_SUM});
}

Functions functions(const PlanDesc& desc) { return with_any("rms_norm", dtype_of(desc.op)); }

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_rms_norm_attrs>();
  const TensorView &x = launch[TERN_RMS_NORM_X], &residual = launch[TERN_RMS_NORM_RESIDUAL];
  const TensorView &weight = launch[TERN_RMS_NORM_WEIGHT], &y = launch[TERN_RMS_NORM_Y];
  const TensorView &sum = launch[TERN_RMS_NORM_SUM], &rstd = launch[TERN_RMS_NORM_RSTD];
  const RowTile tile = row_tile(x.dim(1), kKept);
  Sizes sizes{};
  sizes.rows = x.dim(0);
  sizes.width = x.dim(1);
  take_strides(x, sizes.x);
  take_strides(residual, sizes.residual);
  take_strides(y, sizes.y);
  take_strides(sum, sizes.sum);
  sizes.weight = stride_of(weight);
  sizes.rstd = stride_of(rstd);
  sizes.eps = attrs.eps;
  sizes.weight_offset = attrs.weight_offset;
  sizes.team = static_cast<std::int32_t>(tile.team);
  const bool kept = tile.kept && dtype_of(launch.planned()) >= 0 && are_wide({&x, &residual, &weight, &y, &sum});
  Call call = launch.call(kept ? 1 : 0);
  for (int i = 0; i < TERN_RMS_NORM_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(sizes).overlapped().run(tile.blocks(sizes.rows), tile.threads());
}

// The struct RmsNormBackwardSizes of cu/rms_norm_backward.cu.
struct BackwardSizes {
  std::int64_t rows, width;
  std::int64_t rows_of_team;
  std::int64_t dy[2], x[2], weight, rstd, dsum[2], dx[2];
  float weight_offset;
  std::int32_t team;
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

int dtype_backward(const tern_op_desc& op) {
  return common_dtype(op, {TERN_RMS_NORM_BACKWARD_DY, TERN_RMS_NORM_BACKWARD_X, TERN_RMS_NORM_BACKWARD_DSUM,
                           TERN_RMS_NORM_BACKWARD_DX});
}

Functions functions_backward(const PlanDesc& desc) {
  const bool sums = desc.present(TERN_RMS_NORM_BACKWARD_DWEIGHT);
  return with_any("rms_norm_backward", dtype_backward(desc.op), {"column_sum"},
                  sums ? "rms_norm_backward" : "rms_norm_dx");
}

void run_backward(const Launch& launch) {
  const TensorView &dy = launch[TERN_RMS_NORM_BACKWARD_DY], &x = launch[TERN_RMS_NORM_BACKWARD_X];
  const TensorView &weight = launch[TERN_RMS_NORM_BACKWARD_WEIGHT], &rstd = launch[TERN_RMS_NORM_BACKWARD_RSTD];
  const TensorView &dsum = launch[TERN_RMS_NORM_BACKWARD_DSUM], &dx = launch[TERN_RMS_NORM_BACKWARD_DX];
  const TensorView& dweight = launch[TERN_RMS_NORM_BACKWARD_DWEIGHT];
  const RowTile tile = row_tile(x.dim(1), kKeptBackward);
  BackwardSizes sizes{};
  sizes.rows = x.dim(0);
  sizes.width = x.dim(1);
  sizes.rows_of_team = dweight.present() ? summed_rows(sizes.rows) : 1;
  take_strides(dy, sizes.dy);
  take_strides(x, sizes.x);
  take_strides(dsum, sizes.dsum);
  take_strides(dx, sizes.dx);
  sizes.weight = stride_of(weight);
  sizes.rstd = stride_of(rstd);
  sizes.weight_offset = launch.attr<tern_rms_norm_backward_attrs>().weight_offset;
  sizes.team = static_cast<std::int32_t>(tile.team);
  const bool kept = tile.kept && dtype_backward(launch.planned()) >= 0 && are_wide({&dy, &x, &weight, &dsum, &dx});
  const std::int64_t teams = parts_of(sizes.rows, sizes.rows_of_team);
  const Place partial = dweight.present() ? launch.workspace() : 0;
  Call call = launch.call(kept ? 2 : 0);
  call.arg(dy).arg(x).arg(weight).arg(rstd.planes[0]).arg(dsum).arg(dx).arg(partial).arg(sizes);
  call.overlapped().run(tile.blocks(teams), tile.threads());
  if (dweight.present()) sum_columns(launch.call(1), dweight, partial, teams);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_RMS_NORM, "rms_norm", supports, nullptr, functions, run},
                                    {TERN_OP_RMS_NORM_BACKWARD, "rms_norm_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList rms_norm_kernels() { return kKernels; }

}  // namespace tern::cuda
