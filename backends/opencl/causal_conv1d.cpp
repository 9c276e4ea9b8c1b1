#include <algorithm>

#include "backends/opencl/recurrent.h"

namespace tern::opencl {
namespace {

// The struct ConvSizes of cl/causal_conv1d.cl.
struct Sizes {
  std::int64_t rows, channels, taps, sequences;
  std::int64_t x[2], weight[2], bias, state[3], y[2];
  std::int32_t has_bias, has_state;
};

// Rows of a work-item: weights are read once for them.
std::int64_t rows_of_item(const Facts& device) { return device.cpu ? 16 : 4; }

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

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("W", row_tile(desc.device).width)
      .set("GROUP", 1)
      .set("ROWS", rows_of_item(desc.device))
      .tensor("x", desc, TERN_CAUSAL_CONV1D_X)
      .tensor("weight", desc, TERN_CAUSAL_CONV1D_WEIGHT)
      .tensor("bias", desc, TERN_CAUSAL_CONV1D_BIAS)
      .tensor("state", desc, TERN_CAUSAL_CONV1D_STATE)
      .tensor("y", desc, TERN_CAUSAL_CONV1D_Y);
  return {{"causal_conv1d", "causal_conv1d", defines.text()}, {"causal_conv1d", "causal_conv1d_state", defines.text()}};
}

Sizes sizes_of(const TensorView& x, const TensorView& weight, const TensorView& bounds) {
  Sizes sizes{};
  sizes.rows = x.dim(0);
  sizes.channels = x.dim(1);
  sizes.taps = weight.dim(1) - 1;
  sizes.sequences = std::max<std::int64_t>(bounds.dim(0) - 1, 0);
  take_strides(x, sizes.x);
  take_strides(weight, sizes.weight);
  return sizes;
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_CAUSAL_CONV1D_X], &bounds = launch[TERN_CAUSAL_CONV1D_CU_SEQLENS];
  const TensorView &bias = launch[TERN_CAUSAL_CONV1D_BIAS], &state = launch[TERN_CAUSAL_CONV1D_STATE];
  Sizes sizes = sizes_of(x, launch[TERN_CAUSAL_CONV1D_WEIGHT], bounds);
  sizes.bias = stride_of(bias);
  take_strides(state, sizes.state);
  take_strides(launch[TERN_CAUSAL_CONV1D_Y], sizes.y);
  sizes.has_bias = bias.present() ? 1 : 0;
  sizes.has_state = state.present() ? 1 : 0;
  if (state.present()) sizes.sequences = std::min(sizes.sequences, launch[TERN_CAUSAL_CONV1D_SEATS].dim(0));
  const std::int64_t chunks = parts_of(sizes.channels, row_tile(launch.device()).width);
  const std::array<std::int64_t, 3> group = {plain_group(launch.device()), 1, 1};
  Call call = launch.call(0);
  for (int i = 0; i < TERN_CAUSAL_CONV1D_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(sizes).run({chunks, parts_of(sizes.rows, rows_of_item(launch.device())), 1}, group);
  if (!state.present() || sizes.taps == 0) return;
  Call behind = launch.call(1);
  behind.arg(x).arg(bounds).arg(launch[TERN_CAUSAL_CONV1D_KV_LENS]).arg(launch[TERN_CAUSAL_CONV1D_SEATS]).arg(state);
  behind.arg(sizes).run({chunks, sizes.sequences, 1}, group);
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

std::vector<Function> functions_backward(const PlanDesc& desc) {
  const std::int64_t width = row_tile(desc.device).width;
  Defines defines, sums;
  defines.set("W", width)
      .set("GROUP", 1)
      .set("ROWS", rows_of_item(desc.device))
      .tensor("x", desc, TERN_CAUSAL_CONV1D_BACKWARD_DY)
      .tensor("weight", desc, TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT)
      .tensor("bias", desc, TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT)
      .tensor("state", desc, TERN_CAUSAL_CONV1D_BACKWARD_X)
      .tensor("y", desc, TERN_CAUSAL_CONV1D_BACKWARD_DX);
  sums.set("W", width)
      .set("GROUP", 1)
      .set("ROWS", kSummedRows)
      .tensor("x", desc, TERN_CAUSAL_CONV1D_BACKWARD_X)
      .tensor("weight", desc, TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT)
      .tensor("bias", desc, TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT)
      .tensor("state", desc, TERN_CAUSAL_CONV1D_BACKWARD_X)
      .tensor("y", desc, TERN_CAUSAL_CONV1D_BACKWARD_DY);
  return {{"causal_conv1d", "causal_conv1d_dx", defines.text()},
          {"causal_conv1d", "causal_conv1d_sums", sums.text()},
          {"causal_conv1d", "column_sum", sums.text()}};
}

// One column of dweight, or dbias: its channels lie `stride` apart from `offset` on.
struct Column {
  int arg;
  std::int64_t offset, stride;
};
void sum_blocks(const Launch& launch, const Sizes& sizes, std::int64_t blocks, std::int64_t of, const Column& column) {
  Place to = launch[column.arg].planes[0];
  to.offset += static_cast<std::uint64_t>(column.offset) * sizeof(float);
  const auto from = static_cast<std::uint64_t>(of * blocks * sizes.channels) * sizeof(float);
  Call call = launch.call(2);
  call.arg(launch.workspace(from)).arg(to).arg(blocks).arg(sizes.channels).arg(column.stride);
  call.arg<std::int32_t>(launch.accumulates(column.arg) ? 1 : 0);
  call.run(parts_of(sizes.channels, row_tile(launch.device()).width), plain_group(launch.device()));
}

void run_backward(const Launch& launch) {
  const TensorView &dy = launch[TERN_CAUSAL_CONV1D_BACKWARD_DY], &x = launch[TERN_CAUSAL_CONV1D_BACKWARD_X];
  const TensorView &weight = launch[TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT], &dx = launch[TERN_CAUSAL_CONV1D_BACKWARD_DX];
  const TensorView& bounds = launch[TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS];
  const TensorView& dweight = launch[TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT];
  const TensorView& dbias = launch[TERN_CAUSAL_CONV1D_BACKWARD_DBIAS];
  const std::int64_t chunks = parts_of(x.dim(1), row_tile(launch.device()).width);
  const std::array<std::int64_t, 3> group = {plain_group(launch.device()), 1, 1};
  Sizes sizes = sizes_of(dy, weight, bounds);
  take_strides(dx, sizes.y);
  launch.call(0).arg(dy).arg(weight).arg(bounds).arg(dx).arg(sizes).run(
      {chunks, parts_of(sizes.rows, rows_of_item(launch.device())), 1}, group);
  if (!dweight.present() && !dbias.present()) return;
  take_strides(x, sizes.x);
  take_strides(dy, sizes.y);
  const std::int64_t blocks = parts_of(sizes.rows, kSummedRows);
  launch.call(1)
      .arg(dy)
      .arg(x)
      .arg(bounds)
      .arg(launch.workspace())
      .arg(sizes)
      .run({chunks, blocks, sizes.taps + 2}, group);
  for (std::int64_t j = 0; j <= sizes.taps && dweight.present(); ++j) {
    sum_blocks(launch, sizes, blocks, j,
               {TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT, j * dweight.stride(1), dweight.stride(0)});
  }
  if (dbias.present()) {
    sum_blocks(launch, sizes, blocks, sizes.taps + 1, {TERN_CAUSAL_CONV1D_BACKWARD_DBIAS, 0, dbias.stride(0)});
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_CAUSAL_CONV1D, "causal_conv1d", supports, nullptr, functions, run},
                                    {TERN_OP_CAUSAL_CONV1D_BACKWARD, "causal_conv1d_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList causal_conv1d_kernels() { return kKernels; }

}  // namespace tern::opencl
