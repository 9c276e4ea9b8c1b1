#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void rms_norm(Call& call) {
  const auto attrs = attrs_of<tern_rms_norm_attrs>(call);
  const Tensor& x = input(call, TERN_RMS_NORM_X);
  const Tensor& residual = input(call, TERN_RMS_NORM_RESIDUAL);
  const Tensor& weight = input(call, TERN_RMS_NORM_WEIGHT);
  const tern_dtype sum_dtype = input(call, TERN_RMS_NORM_SUM).desc.dtype;
  Output y(call, TERN_RMS_NORM_Y);
  Output sum(call, TERN_RMS_NORM_SUM, Output::Kind::copies);
  Output rstd(call, TERN_RMS_NORM_RSTD);
  const std::int64_t width = x.size(1);
  std::vector<double> s(static_cast<std::size_t>(width));
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    double squares = 0.0;
    for (std::int64_t c = 0; c < width; ++c) {
      const auto i = static_cast<std::size_t>(r * width + c);
      double value = x.real[i];
      if (residual.present()) {
        // fp32 first, then sum's dtype: both roundings are part of the contract, as y depends on them
        value = round_to(sum_dtype, round_to(TERN_F32, value + residual.real[i]));
        sum.add(r * width + c, value);
      }
      s[static_cast<std::size_t>(c)] = value;
      squares += value * value;
    }
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(attrs.eps));
    rstd.add(r, scale, {.roundings = 4.0 * scale, .terms = width});
    for (std::int64_t c = 0; c < width; ++c) {
      const double normal = s[static_cast<std::size_t>(c)] * scale;
      const double w = weight.real[static_cast<std::size_t>(c)];
      const double offset = attrs.weight_offset;
      const double roundings = 2.0 * std::fabs(normal) * (std::fabs(w) + std::fabs(offset));
      y.add(r * width + c, normal * (w + offset), {.roundings = roundings, .terms = width});
    }
  }
}

}  // namespace tern::ops::ref
