// Floats of 8 and 16 bits to and from double, rounded once to nearest even (IEEE 754-2019, 4.3.1; OCP 8-bit formats).
#pragma once

#include <cmath>
#include <cstdint>

#include "tern/accel.h"

namespace tern::cpu {

struct SmallFloatFormat {
  int mantissa;   // bits stored
  int exponent;   // bits
  bool infinity;  // false: E4M3, whose top exponent holds numbers and, with all mantissa bits set, NaN
  [[nodiscard]] int bias() const { return (1 << (exponent - 1)) - 1; }
  [[nodiscard]] int lowest() const { return 1 - bias(); }  // exponent of the smallest normal number
};

[[nodiscard]] inline SmallFloatFormat small_float_format(tern_dtype dtype) {
  switch (dtype) {
    case TERN_BF16:
      return {7, 8, true};
    case TERN_F8_E4M3:
      return {3, 4, false};
    case TERN_F8_E5M2:
      return {2, 5, true};
    default:
      return {10, 5, true};
  }
}

[[nodiscard]] inline double decode_small_float(const SmallFloatFormat& format, std::uint32_t bits) {
  const std::uint32_t mantissa = bits & ((1U << format.mantissa) - 1);
  const std::uint32_t top = (1U << format.exponent) - 1;
  const std::uint32_t exponent = bits >> format.mantissa & top;
  const double sign = (bits >> (format.mantissa + format.exponent) & 1U) != 0 ? -1.0 : 1.0;
  if (exponent == top && format.infinity) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == top && mantissa + 1 == 1U << format.mantissa) return std::nan("");
  const int scale = (exponent == 0 ? 1 : static_cast<int>(exponent)) - format.bias() - format.mantissa;
  const std::uint32_t whole = exponent == 0 ? mantissa : mantissa | 1U << format.mantissa;
  return sign * std::ldexp(static_cast<double>(whole), scale);
}

[[nodiscard]] inline std::uint16_t encode_small_float(const SmallFloatFormat& format, double value) {
  const std::uint32_t top = (1U << format.exponent) - 1;
  const std::uint32_t sign = std::signbit(value) ? 1U << (format.mantissa + format.exponent) : 0;
  const std::uint32_t infinity = top << format.mantissa;
  const std::uint32_t nan =
      format.infinity ? infinity | 1U << (format.mantissa - 1) : infinity | ((1U << format.mantissa) - 1);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | nan);
  const std::uint32_t beyond = format.infinity ? infinity : nan;
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | beyond);
  const double magnitude = std::fabs(value);
  if (magnitude == 0.0) return static_cast<std::uint16_t>(sign);
  int exponent = std::ilogb(magnitude);
  if (exponent < format.lowest()) exponent = format.lowest();
  // In units of the last place; the default rounding mode is to nearest even. 2^mantissa carries into the exponent.
  const auto units = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent)));
  const std::uint64_t biased = static_cast<std::uint64_t>(exponent - format.lowest());
  const std::uint64_t bits = (biased << format.mantissa) + units;  // a subnormal's exponent field is 0 by itself
  return static_cast<std::uint16_t>(sign | (bits >= beyond ? beyond : bits));
}

}  // namespace tern::cpu
