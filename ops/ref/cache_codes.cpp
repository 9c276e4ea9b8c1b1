#include "ops/ref/cache_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tern::ops::ref {

double row_scale(tern_dtype dtype, std::span<const double> row) {
  double largest = 0.0;
  for (const double x : row) {
    if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, std::fabs(x));
  }
  constexpr double kLeast = 0x1p-126;
  if (dtype == TERN_I8) return std::max<double>(static_cast<float>(largest) / 127.0F, kLeast);
  double scale = kLeast;
  while (largest > 448.0 * scale) scale *= 2.0;
  return scale;
}

double row_code(tern_dtype dtype, double element, double scale) {
  if (std::isnan(scale)) return 0.0;
  if (dtype != TERN_I8) return round_to(dtype, element / scale);
  return std::nearbyint(static_cast<float>(element) / static_cast<float>(scale));
}

Tensor expanded(const Tensor& codes, const Tensor& scales) {
  if (!scales.present()) return codes;
  Tensor out;
  out.desc = make_desc(TERN_F32, std::vector<std::int64_t>(codes.desc.shape, codes.desc.shape + codes.desc.rank));
  const auto dim = static_cast<std::size_t>(codes.size(codes.desc.rank - 1));
  out.real.resize(std::max(codes.real.size(), codes.integer.size()));
  for (std::size_t i = 0; i < out.real.size(); ++i) {
    const double code = codes.real.empty() ? static_cast<double>(codes.integer[i]) : codes.real[i];
    out.real[i] = code * scales.real[i / dim];
  }
  return out;
}

}  // namespace tern::ops::ref
