#include <algorithm>

#include "backends/cuda/rows.h"

namespace tern::cuda {
namespace {

// The struct SinkSizes of cu/sink_scale.cu.
struct Shape {
  std::int64_t rows, heads, width, chunks;
  std::int64_t x[3], out[3], lse[2], lse_out[2], sinks;
};

Shape shape_of(const TensorView& x, const TensorView& out, const TensorView& lse, const TensorView& sinks) {
  Shape shape{};
  shape.rows = x.dim(0);
  shape.heads = x.dim(1);
  shape.width = x.dim(2);
  shape.chunks = std::max<std::int64_t>(1, parts_of(shape.width, kVector));
  take_strides(x, shape.x);
  take_strides(out, shape.out);
  take_strides(lse, shape.lse);
  shape.sinks = sinks.stride(0);
  return shape;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_SINK_SCALE_X);
  return Check(desc, reason)
      .floats({TERN_SINK_SCALE_X, TERN_SINK_SCALE_OUT})
      .rank(TERN_SINK_SCALE_X, 3)
      .rank(TERN_SINK_SCALE_LSE, 2)
      .rank(TERN_SINK_SCALE_SINKS, 1)
      .same_shape({TERN_SINK_SCALE_X, TERN_SINK_SCALE_OUT})
      .same_shape({TERN_SINK_SCALE_LSE, TERN_SINK_SCALE_LSE_OUT})
      .dim(TERN_SINK_SCALE_LSE, 0, x.shape[0])
      .dim(TERN_SINK_SCALE_LSE, 1, x.shape[1])
      .dim(TERN_SINK_SCALE_SINKS, 0, x.shape[1])
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"sink_scale"}; }

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SINK_SCALE_X], &lse = launch[TERN_SINK_SCALE_LSE];
  const TensorView &sinks = launch[TERN_SINK_SCALE_SINKS], &lse_out = launch[TERN_SINK_SCALE_LSE_OUT];
  const TensorView& out = launch[TERN_SINK_SCALE_OUT];
  Shape shape = shape_of(x, out, lse, sinks);
  take_strides(lse_out, shape.lse_out);
  Call call = launch.call(0);
  call.arg(x).arg(lse.planes[0]).arg(sinks.planes[0]).arg(out).arg(lse_out.planes[0]).arg(shape);
  call.run(shape.rows * shape.heads * shape.chunks, kPlainThreads);
}

// Sums of some rows for each head.
std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& dout = desc.arg(TERN_SINK_SCALE_BACKWARD_DOUT);
  return partial_bytes(dout.shape[0], dout.shape[1]);
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& dout = desc.arg(TERN_SINK_SCALE_BACKWARD_DOUT);
  return Check(desc, reason)
      .floats({TERN_SINK_SCALE_BACKWARD_DOUT, TERN_SINK_SCALE_BACKWARD_OUT})
      .rank(TERN_SINK_SCALE_BACKWARD_DOUT, 3)
      .rank(TERN_SINK_SCALE_BACKWARD_LSE, 2)
      .rank(TERN_SINK_SCALE_BACKWARD_SINKS, 1)
      .same_shape({TERN_SINK_SCALE_BACKWARD_DOUT, TERN_SINK_SCALE_BACKWARD_OUT})
      .same_shape({TERN_SINK_SCALE_BACKWARD_SINKS, TERN_SINK_SCALE_BACKWARD_DSINKS})
      .dim(TERN_SINK_SCALE_BACKWARD_LSE, 0, dout.shape[0])
      .dim(TERN_SINK_SCALE_BACKWARD_LSE, 1, dout.shape[1])
      .dim(TERN_SINK_SCALE_BACKWARD_SINKS, 0, dout.shape[1])
      .ok();
}

Functions functions_backward(const PlanDesc& /*desc*/) { return {"sink_scale_backward", "column_sum"}; }

void run_backward(const Launch& launch) {
  const TensorView &dout = launch[TERN_SINK_SCALE_BACKWARD_DOUT], &out = launch[TERN_SINK_SCALE_BACKWARD_OUT];
  const TensorView &lse = launch[TERN_SINK_SCALE_BACKWARD_LSE], &sinks = launch[TERN_SINK_SCALE_BACKWARD_SINKS];
  const TensorView& dsinks = launch[TERN_SINK_SCALE_BACKWARD_DSINKS];
  const Shape shape = shape_of(dout, out, lse, sinks);
  const std::int64_t rows = summed_rows(shape.rows), parts = parts_of(shape.rows, rows);
  Call call = launch.call(0);
  call.arg(dout).arg(out).arg(lse.planes[0]).arg(sinks.planes[0]).arg(launch.workspace()).arg(shape).arg(rows);
  call.run(parts * shape.heads * 32, kPlainThreads);
  sum_columns(launch.call(1), dsinks, launch.workspace(), parts);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SINK_SCALE, "sink_scale", supports, nullptr, functions, run},
                                    {TERN_OP_SINK_SCALE_BACKWARD, "sink_scale_backward", supports_backward,
                                     workspace_backward, functions_backward, run_backward}};

}  // namespace

KernelList sink_scale_kernels() { return kKernels; }

}  // namespace tern::cuda
