#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void rms_norm_backward(Call& call) {
  const auto attrs = attrs_of<tern_rms_norm_backward_attrs>(call);
  const Tensor& dy = input(call, TERN_RMS_NORM_BACKWARD_DY);
  const Tensor& x = input(call, TERN_RMS_NORM_BACKWARD_X);
  const Tensor& weight = input(call, TERN_RMS_NORM_BACKWARD_WEIGHT);
  const Tensor& rstd = input(call, TERN_RMS_NORM_BACKWARD_RSTD);
  const Tensor& dsum = input(call, TERN_RMS_NORM_BACKWARD_DSUM);
  Output dx(call, TERN_RMS_NORM_BACKWARD_DX);
  Output dweight(call, TERN_RMS_NORM_BACKWARD_DWEIGHT);
  const std::int64_t width = x.size(1);
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    const double scale = rstd.real[static_cast<std::size_t>(r)];
    auto g = [&](std::int64_t c) {
      return dy.real[static_cast<std::size_t>(r * width + c)] *
             (weight.real[static_cast<std::size_t>(c)] + static_cast<double>(attrs.weight_offset));
    };
    double mean = 0.0;
    double mean_magnitude = 0.0;
    for (std::int64_t c = 0; c < width; ++c) {
      const double term = g(c) * x.real[static_cast<std::size_t>(r * width + c)] / static_cast<double>(width);
      mean += term;
      mean_magnitude += std::fabs(term);
    }
    for (std::int64_t c = 0; c < width; ++c) {
      const auto i = static_cast<std::size_t>(r * width + c);
      const double carried = dsum.present() ? dsum.real[i] : 0.0;
      const double pulled = x.real[i] * scale * scale;
      const double roundings =
          std::fabs(carried) + 2.0 * std::fabs(scale) * (std::fabs(g(c)) + std::fabs(pulled) * mean_magnitude);
      dx.add(r * width + c, carried + scale * (g(c) - pulled * mean), {.roundings = roundings, .terms = width});
      dweight.add(c, dy.real[i] * x.real[i] * scale, {.roundings = 2.0 * std::fabs(dy.real[i] * x.real[i] * scale)});
    }
  }
}

}  // namespace tern::ops::ref
