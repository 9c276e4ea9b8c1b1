#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void layer_norm(Call& call) {
  const auto attrs = attrs_of<tern_layer_norm_attrs>(call);
  const Tensor& x = input(call, TERN_LAYER_NORM_X);
  const Tensor& residual = input(call, TERN_LAYER_NORM_RESIDUAL);
  const Tensor& weight = input(call, TERN_LAYER_NORM_WEIGHT);
  const Tensor& bias = input(call, TERN_LAYER_NORM_BIAS);
  const tern_dtype sum_dtype = input(call, TERN_LAYER_NORM_SUM).desc.dtype;
  Output y(call, TERN_LAYER_NORM_Y);
  Output sum(call, TERN_LAYER_NORM_SUM, Output::Kind::copies);
  Output mean_out(call, TERN_LAYER_NORM_MEAN);
  Output rstd_out(call, TERN_LAYER_NORM_RSTD);
  const std::int64_t width = x.size(1);
  std::vector<double> s(static_cast<std::size_t>(width));
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    double mean = 0.0;
    double magnitude = 0.0;
    for (std::int64_t c = 0; c < width; ++c) {
      const auto i = static_cast<std::size_t>(r * width + c);
      double value = x.real[i];
      if (residual.present()) {
        // fp32 first, then sum's dtype: both roundings are part of the contract, as y depends on them
        value = round_to(sum_dtype, round_to(TERN_F32, value + residual.real[i]));
        sum.add(r * width + c, value);
      }
      s[static_cast<std::size_t>(c)] = value;
      mean += value;
      magnitude += std::fabs(value);
    }
    mean /= static_cast<double>(width);
    magnitude /= static_cast<double>(width);
    double squares = 0.0;
    for (double& value : s) {
      value -= mean;
      squares += value * value;
    }
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(attrs.eps));
    mean_out.add(r, mean, {.roundings = magnitude, .terms = width});
    rstd_out.add(r, rstd, {.roundings = 4.0 * rstd, .terms = width});
    for (std::int64_t c = 0; c < width; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double w = weight.real[at];
      const double b = bias.present() ? bias.real[at] : 0.0;
      const double roundings = std::fabs(w) * rstd * (2.0 * std::fabs(s[at]) + magnitude) + std::fabs(b);
      y.add(r * width + c, s[at] * rstd * w + b, {.roundings = roundings, .terms = width});
    }
  }
}

}  // namespace tern::ops::ref
