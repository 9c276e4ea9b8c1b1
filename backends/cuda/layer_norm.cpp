// Ba, Kiros and Hinton, "Layer Normalization", 2016.
#include "backends/cuda/rows.h"

namespace tern::cuda {
namespace {

// The struct LayerNormSizes of cu/layer_norm.cu.
struct Sizes {
  std::int64_t rows, width;
  std::int64_t x[2], residual[2], weight, bias, y[2], sum[2], mean, rstd;
  float eps;
  std::int32_t team;
};

constexpr std::int64_t kKept = 4;          // KEPT of cu/layer_norm.cu
constexpr std::int64_t kKeptBackward = 2;  // of cu/layer_norm_backward.cu

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_LAYER_NORM_X);
  return Check(desc, reason)
      .floats({TERN_LAYER_NORM_X, TERN_LAYER_NORM_RESIDUAL, TERN_LAYER_NORM_WEIGHT, TERN_LAYER_NORM_BIAS,
               TERN_LAYER_NORM_Y, TERN_LAYER_NORM_SUM})
      .dtype(TERN_LAYER_NORM_MEAN, TERN_F32)
      .dtype(TERN_LAYER_NORM_RSTD, TERN_F32)
      .rank(TERN_LAYER_NORM_X, 2)
      .same_shape({TERN_LAYER_NORM_X, TERN_LAYER_NORM_RESIDUAL, TERN_LAYER_NORM_Y, TERN_LAYER_NORM_SUM})
      .dim(TERN_LAYER_NORM_WEIGHT, 0, x.shape[1])
      .dim(TERN_LAYER_NORM_BIAS, 0, x.shape[1])
      .dim(TERN_LAYER_NORM_MEAN, 0, x.shape[0])
      .dim(TERN_LAYER_NORM_RSTD, 0, x.shape[0])
      .that(desc.present(TERN_LAYER_NORM_SUM) == desc.present(TERN_LAYER_NORM_RESIDUAL),
            "sum must be present iff residual is")
      .that(desc.present(TERN_LAYER_NORM_MEAN) == desc.present(TERN_LAYER_NORM_RSTD),
            "mean must be present iff rstd is")
      .ok();
}

int dtype_of(const tern_op_desc& op) {
  return common_dtype(op, {TERN_LAYER_NORM_X, TERN_LAYER_NORM_RESIDUAL, TERN_LAYER_NORM_Y, TERN_LAYER_NORM_SUM});
}

Functions functions(const PlanDesc& desc) { return with_any("layer_norm", dtype_of(desc.op)); }

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_LAYER_NORM_X], &residual = launch[TERN_LAYER_NORM_RESIDUAL];
  const TensorView &weight = launch[TERN_LAYER_NORM_WEIGHT], &bias = launch[TERN_LAYER_NORM_BIAS];
  const TensorView &y = launch[TERN_LAYER_NORM_Y], &sum = launch[TERN_LAYER_NORM_SUM];
  const RowTile tile = row_tile(x.dim(1), kKept);
  Sizes sizes{};
  sizes.rows = x.dim(0);
  sizes.width = x.dim(1);
  take_strides(x, sizes.x);
  take_strides(residual, sizes.residual);
  take_strides(y, sizes.y);
  take_strides(sum, sizes.sum);
  sizes.weight = stride_of(weight);
  sizes.bias = stride_of(bias);
  sizes.mean = stride_of(launch[TERN_LAYER_NORM_MEAN]);
  sizes.rstd = stride_of(launch[TERN_LAYER_NORM_RSTD]);
  sizes.eps = launch.attr<tern_layer_norm_attrs>().eps;
  sizes.team = static_cast<std::int32_t>(tile.team);
  const bool kept = tile.kept && dtype_of(launch.planned()) >= 0 && are_wide({&x, &residual, &weight, &bias, &y, &sum});
  Call call = launch.call(kept ? 1 : 0);
  for (int i = 0; i < TERN_LAYER_NORM_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(sizes).overlapped().run(tile.blocks(sizes.rows), tile.threads());
}

// The struct LayerNormBackwardSizes of cu/layer_norm_backward.cu.
struct BackwardSizes {
  std::int64_t rows, width;
  std::int64_t rows_of_team;
  std::int64_t dy[2], x[2], weight, mean, rstd, dsum[2], dx[2];
  std::int32_t team;
};

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_LAYER_NORM_BACKWARD_X);
  return Check(desc, reason)
      .floats({TERN_LAYER_NORM_BACKWARD_DY, TERN_LAYER_NORM_BACKWARD_X, TERN_LAYER_NORM_BACKWARD_WEIGHT,
               TERN_LAYER_NORM_BACKWARD_DSUM, TERN_LAYER_NORM_BACKWARD_DX})
      .dtype(TERN_LAYER_NORM_BACKWARD_MEAN, TERN_F32)
      .dtype(TERN_LAYER_NORM_BACKWARD_RSTD, TERN_F32)
      .dtype(TERN_LAYER_NORM_BACKWARD_DWEIGHT, TERN_F32)
      .dtype(TERN_LAYER_NORM_BACKWARD_DBIAS, TERN_F32)
      .rank(TERN_LAYER_NORM_BACKWARD_X, 2)
      .same_shape({TERN_LAYER_NORM_BACKWARD_X, TERN_LAYER_NORM_BACKWARD_DY, TERN_LAYER_NORM_BACKWARD_DSUM,
                   TERN_LAYER_NORM_BACKWARD_DX})
      .dim(TERN_LAYER_NORM_BACKWARD_WEIGHT, 0, x.shape[1])
      .dim(TERN_LAYER_NORM_BACKWARD_MEAN, 0, x.shape[0])
      .dim(TERN_LAYER_NORM_BACKWARD_RSTD, 0, x.shape[0])
      .dim(TERN_LAYER_NORM_BACKWARD_DWEIGHT, 0, x.shape[1])
      .dim(TERN_LAYER_NORM_BACKWARD_DBIAS, 0, x.shape[1])
      .ok();
}

std::uint64_t half_of_workspace(std::int64_t rows, std::int64_t width) {
  return static_cast<std::uint64_t>(round_up(static_cast<std::int64_t>(partial_bytes(rows, width)), 256));
}

bool sums_anything(const PlanDesc& desc) {
  return desc.present(TERN_LAYER_NORM_BACKWARD_DWEIGHT) || desc.present(TERN_LAYER_NORM_BACKWARD_DBIAS);
}

// The teams' sums for dweight, then those for dbias.
std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_LAYER_NORM_BACKWARD_X);
  return sums_anything(desc) ? 2 * half_of_workspace(x.shape[0], x.shape[1]) : 0;
}

int dtype_backward(const tern_op_desc& op) {
  return common_dtype(op, {TERN_LAYER_NORM_BACKWARD_DY, TERN_LAYER_NORM_BACKWARD_X, TERN_LAYER_NORM_BACKWARD_DSUM,
                           TERN_LAYER_NORM_BACKWARD_DX});
}

Functions functions_backward(const PlanDesc& desc) {
  return with_any("layer_norm_backward", dtype_backward(desc.op), {"column_sum"});
}

void run_backward(const Launch& launch) {
  const TensorView &dy = launch[TERN_LAYER_NORM_BACKWARD_DY], &x = launch[TERN_LAYER_NORM_BACKWARD_X];
  const TensorView &weight = launch[TERN_LAYER_NORM_BACKWARD_WEIGHT], &mean = launch[TERN_LAYER_NORM_BACKWARD_MEAN];
  const TensorView &rstd = launch[TERN_LAYER_NORM_BACKWARD_RSTD], &dsum = launch[TERN_LAYER_NORM_BACKWARD_DSUM];
  const TensorView &dx = launch[TERN_LAYER_NORM_BACKWARD_DX], &dweight = launch[TERN_LAYER_NORM_BACKWARD_DWEIGHT];
  const TensorView& dbias = launch[TERN_LAYER_NORM_BACKWARD_DBIAS];
  const RowTile tile = row_tile(x.dim(1), kKeptBackward);
  BackwardSizes sizes{};
  sizes.rows = x.dim(0);
  sizes.width = x.dim(1);
  sizes.rows_of_team = dweight.present() || dbias.present() ? summed_rows(sizes.rows) : 1;
  take_strides(dy, sizes.dy);
  take_strides(x, sizes.x);
  take_strides(dsum, sizes.dsum);
  take_strides(dx, sizes.dx);
  sizes.weight = stride_of(weight);
  sizes.mean = stride_of(mean);
  sizes.rstd = stride_of(rstd);
  sizes.team = static_cast<std::int32_t>(tile.team);
  const auto& planned = launch.planned();
  const std::int64_t most_rows = planned.args[TERN_LAYER_NORM_BACKWARD_X].shape[0];
  const Place of_weight = dweight.present() ? launch.workspace() : 0;
  const Place of_bias = dbias.present() ? launch.workspace(half_of_workspace(most_rows, sizes.width)) : 0;
  const bool kept = tile.kept && dtype_backward(planned) >= 0 && are_wide({&dy, &x, &weight, &dsum, &dx});
  const std::int64_t teams = parts_of(sizes.rows, sizes.rows_of_team);
  Call call = launch.call(kept ? 2 : 0);
  call.arg(dy).arg(x).arg(weight).arg(mean.planes[0]).arg(rstd.planes[0]).arg(dsum).arg(dx);
  call.arg(of_weight).arg(of_bias).arg(sizes).overlapped().run(tile.blocks(teams), tile.threads());
  if (dweight.present()) sum_columns(launch.call(1), dweight, of_weight, teams);
  if (dbias.present()) sum_columns(launch.call(1), dbias, of_bias, teams);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_LAYER_NORM, "layer_norm", supports, nullptr, functions, run},
                                    {TERN_OP_LAYER_NORM_BACKWARD, "layer_norm_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList layer_norm_kernels() { return kKernels; }

}  // namespace tern::cuda
