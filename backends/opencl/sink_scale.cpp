#include <algorithm>

#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

// The struct Shape of cl/sink_scale.cl.
struct Shape {
  std::int64_t rows, heads, width, chunk, chunks;
  std::int64_t x[3], out[3], lse[2], lse_out[2], sinks;
};

Shape shape_of(const Facts& device, const TensorView& x, const TensorView& out, const TensorView& lse,
               const TensorView& sinks) {
  Shape shape{};
  shape.rows = x.dim(0);
  shape.heads = x.dim(1);
  shape.width = x.dim(2);
  shape.chunk = device.cpu ? std::max<std::int64_t>(1, shape.width) : 4;
  shape.chunks = std::max<std::int64_t>(1, parts_of(shape.width, shape.chunk));
  for (int d = 0; d < 3; ++d) {
    shape.x[d] = x.stride(d);
    shape.out[d] = out.stride(d);
  }
  for (int d = 0; d < 2; ++d) shape.lse[d] = lse.stride(d);
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

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("FORWARD", 1)
      .tensor("x", desc, TERN_SINK_SCALE_X)
      .tensor("out", desc, TERN_SINK_SCALE_OUT)
      .tensor("lse_out", desc, TERN_SINK_SCALE_LSE_OUT);
  return {{"sink_scale", "sink_scale", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SINK_SCALE_X], &lse = launch[TERN_SINK_SCALE_LSE];
  const TensorView &sinks = launch[TERN_SINK_SCALE_SINKS], &lse_out = launch[TERN_SINK_SCALE_LSE_OUT];
  const TensorView& out = launch[TERN_SINK_SCALE_OUT];
  Shape shape = shape_of(launch.device(), x, out, lse, sinks);
  for (int d = 0; d < 2 && lse_out.present(); ++d) shape.lse_out[d] = lse_out.stride(d);
  Call call = launch.call(0);
  call.arg(x).arg(lse).arg(sinks).arg(out).arg(lse_out).arg(shape);
  call.run(shape.rows * shape.heads * shape.chunks, plain_group(launch.device()));
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

std::vector<Function> functions_backward(const PlanDesc& desc) {
  Defines defines;
  defines.set("GROUP", reducing_group(desc.device))
      .tensor("dout", desc, TERN_SINK_SCALE_BACKWARD_DOUT)
      .tensor("out", desc, TERN_SINK_SCALE_BACKWARD_OUT)
      .tensor("dsinks", desc, TERN_SINK_SCALE_BACKWARD_DSINKS)
      .adds("dsinks", desc, TERN_SINK_SCALE_BACKWARD_DSINKS);
  return {{"sink_scale", "sink_scale_backward", defines.text()}};
}

void run_backward(const Launch& launch) {
  const TensorView &dout = launch[TERN_SINK_SCALE_BACKWARD_DOUT], &out = launch[TERN_SINK_SCALE_BACKWARD_OUT];
  const TensorView &lse = launch[TERN_SINK_SCALE_BACKWARD_LSE], &sinks = launch[TERN_SINK_SCALE_BACKWARD_SINKS];
  const TensorView& dsinks = launch[TERN_SINK_SCALE_BACKWARD_DSINKS];
  Shape shape = shape_of(launch.device(), dout, out, lse, sinks);
  shape.lse_out[0] = dsinks.stride(0);
  const std::int64_t group = reducing_group(launch.device());
  launch.call(0).arg(dout).arg(out).arg(lse).arg(sinks).arg(dsinks).arg(shape).run(shape.heads * group, group);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_SINK_SCALE, "sink_scale", supports, nullptr, functions, run},
    {TERN_OP_SINK_SCALE_BACKWARD, "sink_scale_backward", supports_backward, nullptr, functions_backward, run_backward}};

}  // namespace

KernelList sink_scale_kernels() { return kKernels; }

}  // namespace tern::opencl
