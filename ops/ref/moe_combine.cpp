#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void moe_combine(Call& call) {
  const Tensor& x = input(call, TERN_MOE_COMBINE_X);
  const Tensor& places = input(call, TERN_MOE_COMBINE_PLACES);
  const Tensor& weights = input(call, TERN_MOE_COMBINE_WEIGHTS);
  Output y(call, TERN_MOE_COMBINE_Y);
  const std::int64_t top_k = x.size(1);
  const std::int64_t width = x.size(2);
  for (std::int64_t i = 0; i < x.size(0) * top_k; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double weight = weights.present() ? weights.real[at] : 1.0;
    for (std::int64_t c = 0; c < width; ++c) {
      const double value = x.real[static_cast<std::size_t>(places.integer[at] * width + c)];
      y.add(i / top_k * width + c, weight * value);
    }
  }
}

void moe_combine_backward(Call& call) {
  const Tensor& dy = input(call, TERN_MOE_COMBINE_BACKWARD_DY);
  const Tensor& x = input(call, TERN_MOE_COMBINE_BACKWARD_X);
  const Tensor& places = input(call, TERN_MOE_COMBINE_BACKWARD_PLACES);
  const Tensor& weights = input(call, TERN_MOE_COMBINE_BACKWARD_WEIGHTS);
  Output dx(call, TERN_MOE_COMBINE_BACKWARD_DX);
  Output dweights(call, TERN_MOE_COMBINE_BACKWARD_DWEIGHTS);
  const std::int64_t width = dy.size(1);
  const std::int64_t top_k = places.size(1);
  for (std::int64_t i = 0; i < places.size(0) * top_k; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double weight = weights.present() ? weights.real[at] : 1.0;
    double dot = 0.0;
    double size = 0.0;
    for (std::int64_t c = 0; c < width; ++c) {
      const double upstream = dy.real[static_cast<std::size_t>(i / top_k * width + c)];
      dx.add(places.integer[at] * width + c, weight * upstream);
      if (!dweights.present()) continue;
      const double term = upstream * x.real[static_cast<std::size_t>(places.integer[at] * width + c)];
      dot += term;
      size += std::fabs(term);
    }
    if (dweights.present()) dweights.add(i, dot, {.roundings = size, .terms = width});
  }
}

}  // namespace tern::ops::ref
