// Ba, Kiros and Hinton, "Layer Normalization", 2016.
#include "backends/opencl/rows.h"

namespace tern::opencl {
namespace {

// The struct NormSizes of cl/layer_norm.cl.
struct Sizes {
  std::int64_t rows, width;
  std::int64_t x[2], residual[2], weight, bias, y[2], sum[2], mean, rstd;
  float eps;
};

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

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  tile_defines(defines, row_tile(desc.device), "ROWS")
      .tensor("x", desc, TERN_LAYER_NORM_X)
      .tensor("residual", desc, TERN_LAYER_NORM_RESIDUAL)
      .tensor("weight", desc, TERN_LAYER_NORM_WEIGHT)
      .tensor("bias", desc, TERN_LAYER_NORM_BIAS)
      .tensor("y", desc, TERN_LAYER_NORM_Y)
      .tensor("sum", desc, TERN_LAYER_NORM_SUM)
      .tensor("rstd", desc, TERN_LAYER_NORM_RSTD);
  return {{"layer_norm", "layer_norm", defines.text()}};
}

void run(const Launch& launch) {
  const RowTile tile = row_tile(launch.device());
  const TensorView& x = launch[TERN_LAYER_NORM_X];
  Sizes sizes{};
  sizes.rows = x.dim(0);
  sizes.width = x.dim(1);
  take_strides(x, sizes.x);
  take_strides(launch[TERN_LAYER_NORM_RESIDUAL], sizes.residual);
  take_strides(launch[TERN_LAYER_NORM_Y], sizes.y);
  take_strides(launch[TERN_LAYER_NORM_SUM], sizes.sum);
  sizes.weight = stride_of(launch[TERN_LAYER_NORM_WEIGHT]);
  sizes.bias = stride_of(launch[TERN_LAYER_NORM_BIAS]);
  sizes.mean = stride_of(launch[TERN_LAYER_NORM_MEAN]);
  sizes.rstd = stride_of(launch[TERN_LAYER_NORM_RSTD]);
  sizes.eps = launch.attr<tern_layer_norm_attrs>().eps;
  Call call = launch.call(0);
  for (int i = 0; i < TERN_LAYER_NORM_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(sizes).run(parts_of(sizes.rows, tile.rows) * tile.group, tile.group);
}

// The struct NormSizes of cl/layer_norm_backward.cl.
struct BackwardSizes {
  std::int64_t rows, width;
  std::int64_t dy[2], x[2], weight, mean, rstd, dsum[2], dx[2];
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
  return static_cast<std::uint64_t>(round_up(static_cast<std::int64_t>(partial_bytes(rows, width)), 64));
}
bool sums_anything(const PlanDesc& desc) {
  return desc.present(TERN_LAYER_NORM_BACKWARD_DWEIGHT) || desc.present(TERN_LAYER_NORM_BACKWARD_DBIAS);
}

// The blocks' sums for dweight, then those for dbias.
std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_LAYER_NORM_BACKWARD_X);
  return sums_anything(desc) ? 2 * half_of_workspace(x.shape[0], x.shape[1]) : 0;
}

std::vector<Function> functions_backward(const PlanDesc& desc) {
  const RowTile tile = row_tile(desc.device);
  Defines defines, sums;
  for (Defines* each : {&defines, &sums}) {
    each->tensor("dy", desc, TERN_LAYER_NORM_BACKWARD_DY)
        .tensor("x", desc, TERN_LAYER_NORM_BACKWARD_X)
        .tensor("weight", desc, TERN_LAYER_NORM_BACKWARD_WEIGHT)
        .tensor("dsum", desc, TERN_LAYER_NORM_BACKWARD_DSUM)
        .tensor("dx", desc, TERN_LAYER_NORM_BACKWARD_DX)
        .tensor("dweight", desc, TERN_LAYER_NORM_BACKWARD_DWEIGHT)
        .tensor("dbias", desc, TERN_LAYER_NORM_BACKWARD_DBIAS);
  }
  tile_defines(defines, tile, "ROWS");
  sum_defines(sums, tile, "ROWS");
  std::vector<Function> list = {{"layer_norm_backward", "layer_norm_dx", defines.text()}};
  if (sums_anything(desc)) {
    list.push_back({"layer_norm_backward", "layer_norm_sums", sums.text()});
    list.push_back({"layer_norm_backward", "column_sum", sums.text()});
  }
  return list;
}

void run_backward(const Launch& launch) {
  const RowTile tile = row_tile(launch.device());
  const TensorView &dy = launch[TERN_LAYER_NORM_BACKWARD_DY], &x = launch[TERN_LAYER_NORM_BACKWARD_X];
  const TensorView &weight = launch[TERN_LAYER_NORM_BACKWARD_WEIGHT], &mean = launch[TERN_LAYER_NORM_BACKWARD_MEAN];
  const TensorView &rstd = launch[TERN_LAYER_NORM_BACKWARD_RSTD], &dsum = launch[TERN_LAYER_NORM_BACKWARD_DSUM];
  const TensorView& dx = launch[TERN_LAYER_NORM_BACKWARD_DX];
  const bool of_weight = launch[TERN_LAYER_NORM_BACKWARD_DWEIGHT].present();
  const bool of_bias = launch[TERN_LAYER_NORM_BACKWARD_DBIAS].present();
  BackwardSizes sizes{};
  sizes.rows = x.dim(0);
  sizes.width = x.dim(1);
  take_strides(dy, sizes.dy);
  take_strides(x, sizes.x);
  take_strides(dsum, sizes.dsum);
  take_strides(dx, sizes.dx);
  sizes.weight = stride_of(weight);
  sizes.mean = stride_of(mean);
  sizes.rstd = stride_of(rstd);
  if (of_weight || of_bias) {
    const std::int64_t blocks = parts_of(sizes.rows, kSummedRows);
    const auto& planned = launch.planned().args[TERN_LAYER_NORM_BACKWARD_X];
    const Place first = launch.workspace();
    const Place second = launch.workspace(half_of_workspace(planned.shape[0], planned.shape[1]));
    launch.call(1).arg(dy).arg(x).arg(mean).arg(rstd).arg(first).arg(second).arg(sizes).run(
        {parts_of(sizes.width, tile.width), blocks, 1}, {plain_group(launch.device()), 1, 1});
    if (of_weight) sum_columns(launch.call(2), launch, first, TERN_LAYER_NORM_BACKWARD_DWEIGHT, blocks);
    if (of_bias) sum_columns(launch.call(2), launch, second, TERN_LAYER_NORM_BACKWARD_DBIAS, blocks);
  }
  launch.call(0).arg(dy).arg(x).arg(weight).arg(mean).arg(rstd).arg(dsum).arg(dx).arg(sizes).run(
      parts_of(sizes.rows, tile.rows) * tile.group, tile.group);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_LAYER_NORM, "layer_norm", supports, nullptr, functions, run},
                                    {TERN_OP_LAYER_NORM_BACKWARD, "layer_norm_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList layer_norm_kernels() { return kKernels; }

}  // namespace tern::opencl
