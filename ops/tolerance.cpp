#include "ops/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/ref/tensor.h"

namespace tern::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

double rounding_growth(std::int64_t length) {
  const auto n = static_cast<double>(std::max<std::int64_t>(length, 1));
  return 2.0 + std::min(n, 4.0 * std::sqrt(n));
}

double slack_of(double roundings, std::int64_t terms, double narrowed) {
  return ref::unit_roundoff(TERN_F32) * rounding_growth(terms) * roundings + narrowed + 0x1p-126;
}

double error_share(tern_dtype dtype, double exact, double slack, double got, bool strict) {
  const double rounded = ref::round_to(dtype, exact);
  if (got == rounded || (std::isnan(got) && std::isnan(rounded))) return 0.0;
  if (!std::isfinite(exact)) return strict || std::isfinite(got) ? kInfinity : 0.0;
  if (slack == kInfinity) return strict && !std::isfinite(got) ? kInfinity : 0.0;  // open, but finite
  if (std::isnan(rounded) || std::isnan(slack)) return strict || std::isfinite(got) ? kInfinity : 0.0;
  if (std::isnan(got)) return std::isinf(rounded) && !strict ? 0.0 : kInfinity;
  const double bound = got > exact ? ref::round_to(dtype, exact + slack) : ref::round_to(dtype, exact - slack);
  if (std::isinf(got) || std::isinf(bound)) return got == bound || std::fabs(got) < std::fabs(bound) ? 1.0 : kInfinity;
  const double allowed = std::fabs(bound - exact);
  const double error = std::fabs(got - exact);
  const bool outside = got > exact ? got > bound : got < bound;
  if (!outside) return allowed > 0.0 ? std::min(1.0, error / allowed) : 1.0;
  return allowed > 0.0 ? std::max(error / allowed, std::nextafter(1.0, 2.0)) : kInfinity;
}

}  // namespace tern::ops
