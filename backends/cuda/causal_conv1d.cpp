#include <algorithm>

#include "backends/cuda/recurrent.h"

namespace tern::cuda {
namespace {

// The struct ConvSizes of cu/causal_conv1d.cu.
struct Sizes {
  std::int64_t rows, channels, taps, sequences;
  std::int64_t rows_of_thread;
  std::int64_t x[2], weight[2], bias, state[3], y[2];
};

// Rows of a thread: weights are read once for them. Of few rows each has a thread.
std::int64_t rows_of_thread(std::int64_t rows) { return std::clamp<std::int64_t>(rows / 256, 1, 16); }
constexpr std::int64_t kMostBlocks = 65535;  // of a second dimension

constexpr StatePlaces kState = {TERN_CAUSAL_CONV1D_STATE, TERN_CAUSAL_CONV1D_SEATS, TERN_CAUSAL_CONV1D_KV_LENS,
                                TERN_CAUSAL_CONV1D_CU_SEQLENS};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_CAUSAL_CONV1D_X), &weight = desc.arg(TERN_CAUSAL_CONV1D_WEIGHT);
  Check check(desc, reason);
  return check_state(check, desc, kState)
      .floats({TERN_CAUSAL_CONV1D_X, TERN_CAUSAL_CONV1D_WEIGHT, TERN_CAUSAL_CONV1D_BIAS, TERN_CAUSAL_CONV1D_STATE,
               TERN_CAUSAL_CONV1D_Y})
      .rank(TERN_CAUSAL_CONV1D_X, 2)
      .rank(TERN_CAUSAL_CONV1D_WEIGHT, 2)
      .rank(TERN_CAUSAL_CONV1D_STATE, 3)
      .same_shape({TERN_CAUSAL_CONV1D_X, TERN_CAUSAL_CONV1D_Y})
      .that(weight.shape[1] >= 1, "weight has no column")
      .dim(TERN_CAUSAL_CONV1D_WEIGHT, 0, x.shape[1])
      .dim(TERN_CAUSAL_CONV1D_BIAS, 0, x.shape[1])
      .dim(TERN_CAUSAL_CONV1D_STATE, 1, weight.shape[1] - 1)
      .dim(TERN_CAUSAL_CONV1D_STATE, 2, x.shape[1])
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"causal_conv1d", "causal_conv1d_state"}; }

Sizes sizes_of(const TensorView& x, const TensorView& weight, const TensorView& bounds) {
  Sizes sizes{};
  sizes.rows = x.dim(0);
  sizes.channels = x.dim(1);
  sizes.taps = weight.dim(1) - 1;
  sizes.sequences = std::max<std::int64_t>(bounds.dim(0) - 1, 0);
  sizes.rows_of_thread = std::max(rows_of_thread(sizes.rows), parts_of(sizes.rows, kMostBlocks));
  take_strides(x, sizes.x);
  take_strides(weight, sizes.weight);
  return sizes;
}
// Blocks of kPlainThreads whose threads have kVector channels each.
std::int64_t blocks_of_channels(const Sizes& sizes) {
  return parts_of(parts_of(sizes.channels, kVector), kPlainThreads);
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_CAUSAL_CONV1D_X], &weight = launch[TERN_CAUSAL_CONV1D_WEIGHT];
  const TensorView &bias = launch[TERN_CAUSAL_CONV1D_BIAS], &bounds = launch[TERN_CAUSAL_CONV1D_CU_SEQLENS];
  const TensorView &state = launch[TERN_CAUSAL_CONV1D_STATE], &y = launch[TERN_CAUSAL_CONV1D_Y];
  const Place starts = bounds.planes[0], kv_lens = launch[TERN_CAUSAL_CONV1D_KV_LENS].planes[0];
  const Place seats = launch[TERN_CAUSAL_CONV1D_SEATS].planes[0];
  Sizes sizes = sizes_of(x, weight, bounds);
  sizes.bias = stride_of(bias);
  take_strides(state, sizes.state);
  take_strides(y, sizes.y);
  if (state.present()) sizes.sequences = std::min(sizes.sequences, launch[TERN_CAUSAL_CONV1D_SEATS].dim(0));
  const std::int64_t blocks = blocks_of_channels(sizes);
  const Dim3 threads = {kPlainThreads, 1, 1};
  Call call = launch.call(0);
  call.arg(x).arg(weight).arg(bias).arg(starts).arg(kv_lens).arg(seats).arg(state).arg(y).arg(sizes);
  call.run({blocks, parts_of(sizes.rows, sizes.rows_of_thread), 1}, threads);
  if (!state.present() || sizes.taps == 0) return;
  Call behind = launch.call(1);
  behind.arg(x).arg(starts).arg(kv_lens).arg(seats).arg(state).arg(sizes);
  behind.run({sizes.sequences, blocks, 1}, threads);
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_CAUSAL_CONV1D_BACKWARD_X);
  return Check(desc, reason)
      .floats({TERN_CAUSAL_CONV1D_BACKWARD_DY, TERN_CAUSAL_CONV1D_BACKWARD_X, TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT,
               TERN_CAUSAL_CONV1D_BACKWARD_DX})
      .dtype(TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS, TERN_I32)
      .dtype(TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT, TERN_F32)
      .dtype(TERN_CAUSAL_CONV1D_BACKWARD_DBIAS, TERN_F32)
      .rank(TERN_CAUSAL_CONV1D_BACKWARD_X, 2)
      .rank(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT, 2)
      .same_shape({TERN_CAUSAL_CONV1D_BACKWARD_X, TERN_CAUSAL_CONV1D_BACKWARD_DY, TERN_CAUSAL_CONV1D_BACKWARD_DX})
      .same_shape({TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT, TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT})
      .that(desc.arg(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT).shape[1] >= 1, "weight has no column")
      .dim(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT, 0, x.shape[1])
      .dim(TERN_CAUSAL_CONV1D_BACKWARD_DBIAS, 0, x.shape[1])
      .ok();
}

// Sums of blocks of rows, of each column of the weight and of the bias.
std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto &x = desc.arg(TERN_CAUSAL_CONV1D_BACKWARD_X), &weight = desc.arg(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT);
  if (!desc.present(TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT) && !desc.present(TERN_CAUSAL_CONV1D_BACKWARD_DBIAS)) return 0;
  return partial_bytes(x.shape[0], x.shape[1]) * static_cast<std::uint64_t>(weight.shape[1] + 1);
}

Functions functions_backward(const PlanDesc& /*desc*/) {
  return {"causal_conv1d_dx", "causal_conv1d_sums", "column_sum"};
}

void run_backward(const Launch& launch) {
  const TensorView &dy = launch[TERN_CAUSAL_CONV1D_BACKWARD_DY], &x = launch[TERN_CAUSAL_CONV1D_BACKWARD_X];
  const TensorView &weight = launch[TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT], &dx = launch[TERN_CAUSAL_CONV1D_BACKWARD_DX];
  const TensorView& bounds = launch[TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS];
  const TensorView& dweight = launch[TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT];
  const TensorView& dbias = launch[TERN_CAUSAL_CONV1D_BACKWARD_DBIAS];
  const Dim3 threads = {kPlainThreads, 1, 1};
  Sizes sizes = sizes_of(dy, weight, bounds);
  take_strides(dx, sizes.y);
  const std::int64_t blocks = blocks_of_channels(sizes);
  launch.call(0)
      .arg(dy)
      .arg(weight)
      .arg(bounds.planes[0])
      .arg(dx)
      .arg(sizes)
      .run({blocks, parts_of(sizes.rows, sizes.rows_of_thread), 1}, threads);
  if (!dweight.present() && !dbias.present()) return;
  take_strides(x, sizes.x);
  take_strides(dy, sizes.y);
  sizes.rows_of_thread = summed_rows(sizes.rows);
  const std::int64_t teams = parts_of(sizes.rows, sizes.rows_of_thread), columns = sizes.taps + 1;
  constexpr std::int64_t kSummed = 4;  // SUMMED of cu/causal_conv1d.cu
  Call call = launch.call(1);
  call.arg(dy).arg(x).arg(bounds.planes[0]).arg(launch.workspace()).arg(sizes);
  call.run({blocks, teams, parts_of(columns, kSummed)}, threads);
  const auto part = [&](std::int64_t j) {
    return launch.workspace(static_cast<std::uint64_t>(j * teams * sizes.channels) * sizeof(float));
  };
  for (std::int64_t j = 0; j < columns && dweight.present(); ++j) {
    DeviceTensor column = dweight.plane(0);
    column.at += static_cast<std::uint64_t>(j * dweight.stride(1)) * sizeof(float);
    sum_columns(launch.call(2), column, sizes.channels, dweight.stride(0), part(j), teams);
  }
  if (dbias.present()) sum_columns(launch.call(2), dbias, part(columns), teams);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_CAUSAL_CONV1D, "causal_conv1d", supports, nullptr, functions, run},
                                    {TERN_OP_CAUSAL_CONV1D_BACKWARD, "causal_conv1d_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList causal_conv1d_kernels() { return kKernels; }

}  // namespace tern::cuda
