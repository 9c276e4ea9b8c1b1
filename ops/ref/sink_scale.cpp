#include <limits>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// log(exp(a) + exp(b)) of an `a` that is no -infinity.
double log_sum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double most = std::max(a, b);
  return std::isinf(most) ? most : most + std::log(std::exp(a - most) + std::exp(b - most));
}

}  // namespace

void sink_scale(Call& call) {
  const Tensor& x = input(call, TERN_SINK_SCALE_X);
  const Tensor& lse = input(call, TERN_SINK_SCALE_LSE);
  const Tensor& sinks = input(call, TERN_SINK_SCALE_SINKS);
  Output out(call, TERN_SINK_SCALE_OUT);
  Output lse_out(call, TERN_SINK_SCALE_LSE_OUT);
  lse_out.fill(kNothing);
  const std::int64_t heads = x.size(1);
  const std::int64_t width = x.size(2);
  for (std::int64_t at = 0; at < x.size(0) * heads; ++at) {
    const double before = lse.real[static_cast<std::size_t>(at)];
    if (before == kNothing) continue;
    const double sink = sinks.real[static_cast<std::size_t>(at % heads)];
    const double error = std::fabs(before) + std::fabs(sink);
    const double share = 1.0 / (1.0 + std::exp(sink - before));
    lse_out.add(at, log_sum(before, sink), {.roundings = 4.0 + error});
    for (std::int64_t i = at * width; i < (at + 1) * width; ++i) {
      const double value = x.real[static_cast<std::size_t>(i)] * share;
      out.add(i, value, {.roundings = std::fabs(value) * (8.0 + error)});
    }
  }
}

}  // namespace tern::ops::ref
