#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/attention_tile.h"
#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

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

// Of one row of one head: what its values are multiplied by, and its lse with the sink in it.
struct Joined {
  float share;
  float lse;
};
Joined join(float lse, float sink) {
  if (lse == kNothing) return {0.0F, kNothing};
  const double both = std::max<double>(lse, sink) + std::log1p(std::exp(-std::fabs(double{lse} - sink)));
  return {static_cast<float>(1.0 / (1.0 + std::exp(double{sink} - lse))), static_cast<float>(both)};
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_SINK_SCALE_X], &lse = args[TERN_SINK_SCALE_LSE];
  const TensorView &sinks = args[TERN_SINK_SCALE_SINKS], &lse_out = args[TERN_SINK_SCALE_LSE_OUT];
  const TensorView& out = args[TERN_SINK_SCALE_OUT];
  const TileIo io(args);
  const RowKernels& rows = row_kernels(args.target);
  const std::int64_t heads = x.dim(1);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, x.dim(2)));
  args.pool->parallel_for(x.dim(0) * heads, grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t row = at / heads, head = at % heads;
      const Joined joined = join(lse.data<const float>()[row * lse.stride(0) + head * lse.stride(1)],
                                 sinks.data<const float>()[head * sinks.stride(0)]);
      if (lse_out.present()) {
        lse_out.data<float>()[row * lse_out.stride(0) + head * lse_out.stride(1)] = joined.lse;
      }
      for (std::int64_t first = 0; first < x.dim(2); first += kTile) {
        const std::int64_t n = std::min(kTile, x.dim(2) - first);
        const std::int64_t from = row * x.stride(0) + head * x.stride(1) + first * x.stride(2);
        const float* values = io.load(x, from, x.stride(2), n, buffer.data());
        if (values != buffer.data()) std::copy(values, values + n, buffer.data());
        if (joined.lse == kNothing) {
          std::fill_n(buffer.data(), n, 0.0F);  // whatever x holds
        } else {
          rows.scale(buffer.data(), joined.share, n);
        }
        const std::int64_t to = row * out.stride(0) + head * out.stride(1) + first * out.stride(2);
        io.store(out, to, out.stride(2), n, false, buffer.data());
      }
    }
  });
}

bool backward_supports(const PlanDesc& desc, std::string& reason) {
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

// A task is a head: its rows are added in order.
void backward_run(const KernelArgs& args) {
  const TensorView &dout = args[TERN_SINK_SCALE_BACKWARD_DOUT], &lse = args[TERN_SINK_SCALE_BACKWARD_LSE];
  const TensorView &sinks = args[TERN_SINK_SCALE_BACKWARD_SINKS], &dsinks = args[TERN_SINK_SCALE_BACKWARD_DSINKS];
  const HeadRows gradients = head_rows(dout, 0), values = head_rows(args[TERN_SINK_SCALE_BACKWARD_OUT], 0);
  const RowKernels& rows = row_kernels(args.target);
  const GemmKernels& kernels = gemm_kernels(args.target);
  const std::int64_t width = dout.dim(2);
  args.pool->parallel_tasks(dout.dim(1), [&](std::int64_t head, int) {
    std::vector<float> gradient(static_cast<std::size_t>(width)), value(static_cast<std::size_t>(width));
    const double sink = sinks.data<const float>()[head * sinks.stride(0)];
    double sum = 0;
    for (std::int64_t row = 0; row < dout.dim(0); ++row) {
      const float row_lse = lse.data<const float>()[row * lse.stride(0) + head * lse.stride(1)];
      if (row_lse == kNothing) continue;
      read_row(kernels, gradients, row, head, width, gradient.data());
      read_row(kernels, values, row, head, width, value.data());
      sum -= std::exp(sink - row_lse) * rows.dot(gradient.data(), value.data(), width);
    }
    float& to = dsinks.data<float>()[head * dsinks.stride(0)];
    to = static_cast<float>(args.accumulates(TERN_SINK_SCALE_BACKWARD_DSINKS) ? to + sum : sum);
  });
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_SINK_SCALE, "sink_scale", supports, nullptr, nullptr, run},
    {TERN_OP_SINK_SCALE_BACKWARD, "sink_scale", backward_supports, nullptr, nullptr, backward_run},
};

}  // namespace

KernelList sink_scale_kernels() { return kKernels; }

}  // namespace tern::cpu
