#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void layer_norm_backward(Call& call) {
  const Tensor& dy = input(call, TERN_LAYER_NORM_BACKWARD_DY);
  const Tensor& x = input(call, TERN_LAYER_NORM_BACKWARD_X);
  const Tensor& weight = input(call, TERN_LAYER_NORM_BACKWARD_WEIGHT);
  const Tensor& means = input(call, TERN_LAYER_NORM_BACKWARD_MEAN);
  const Tensor& rstds = input(call, TERN_LAYER_NORM_BACKWARD_RSTD);
  const Tensor& dsum = input(call, TERN_LAYER_NORM_BACKWARD_DSUM);
  Output dx(call, TERN_LAYER_NORM_BACKWARD_DX);
  Output dweight(call, TERN_LAYER_NORM_BACKWARD_DWEIGHT);
  Output dbias(call, TERN_LAYER_NORM_BACKWARD_DBIAS);
  const std::int64_t width = x.size(1);
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    const double rstd = rstds.real[static_cast<std::size_t>(r)];
    const double mean = means.real[static_cast<std::size_t>(r)];
    auto g = [&](std::int64_t c) {
      return dy.real[static_cast<std::size_t>(r * width + c)] * weight.real[static_cast<std::size_t>(c)];
    };
    auto centred = [&](std::int64_t c) { return x.real[static_cast<std::size_t>(r * width + c)] - mean; };
    auto size_of = [&](std::int64_t c) {
      return std::fabs(x.real[static_cast<std::size_t>(r * width + c)]) + std::fabs(mean);
    };
    double mean_g = 0.0, mean_g_size = 0.0, product = 0.0, product_size = 0.0;
    for (std::int64_t c = 0; c < width; ++c) {
      mean_g += g(c) / static_cast<double>(width);
      mean_g_size += std::fabs(g(c)) / static_cast<double>(width);
      product += g(c) * centred(c) / static_cast<double>(width);
      product_size += std::fabs(g(c)) * size_of(c) / static_cast<double>(width);
    }
    for (std::int64_t c = 0; c < width; ++c) {
      const auto i = static_cast<std::size_t>(r * width + c);
      const double carried = dsum.present() ? dsum.real[i] : 0.0;
      const double pulled = centred(c) * rstd * rstd;
      const double pulled_size = size_of(c) * rstd * rstd;
      const double roundings =
          std::fabs(carried) + 2.0 * std::fabs(rstd) * (std::fabs(g(c)) + mean_g_size + pulled_size * product_size);
      dx.add(r * width + c, carried + rstd * (g(c) - mean_g - pulled * product),
             {.roundings = roundings, .terms = width});
      dweight.add(c, dy.real[i] * centred(c) * rstd, {.roundings = 2.0 * std::fabs(dy.real[i] * size_of(c) * rstd)});
      dbias.add(c, dy.real[i]);
    }
  }
}

}  // namespace tern::ops::ref
