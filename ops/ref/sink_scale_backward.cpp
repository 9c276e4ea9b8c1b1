#include <limits>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void sink_scale_backward(Call& call) {
  const Tensor& dout = input(call, TERN_SINK_SCALE_BACKWARD_DOUT);
  const Tensor& out = input(call, TERN_SINK_SCALE_BACKWARD_OUT);
  const Tensor& lse = input(call, TERN_SINK_SCALE_BACKWARD_LSE);
  const Tensor& sinks = input(call, TERN_SINK_SCALE_BACKWARD_SINKS);
  Output dsinks(call, TERN_SINK_SCALE_BACKWARD_DSINKS);
  const std::int64_t heads = dout.size(1);
  const std::int64_t width = dout.size(2);
  for (std::int64_t at = 0; at < dout.size(0) * heads; ++at) {
    const double row_lse = lse.real[static_cast<std::size_t>(at)];
    if (row_lse == -std::numeric_limits<double>::infinity()) continue;
    const double sink = sinks.real[static_cast<std::size_t>(at % heads)];
    double delta = 0.0;
    double magnitude = 0.0;
    for (std::int64_t i = at * width; i < (at + 1) * width; ++i) {
      const double term = dout.real[static_cast<std::size_t>(i)] * out.real[static_cast<std::size_t>(i)];
      delta += term;
      magnitude += std::fabs(term);
    }
    const double p = std::exp(sink - row_lse);
    dsinks.add(at % heads, -p * delta,
               {.roundings = p * magnitude * (8.0 + std::fabs(sink) + std::fabs(row_lse)), .terms = width});
  }
}

}  // namespace tern::ops::ref
