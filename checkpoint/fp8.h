// 8-bit floats as bits (OCP 8-bit Floating Point Specification 1.0).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/half.h"

namespace tern::checkpoint {

// Bias 7, no infinity, NaN 0x7f and 0xff.
[[nodiscard]] constexpr float f8_e4m3_to_float(std::uint8_t bits) {
  const float sign = (bits & 0x80U) != 0 ? -1.0F : 1.0F;
  const std::uint32_t exponent = (bits >> 3) & 15U;
  const std::uint32_t mantissa = bits & 7U;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-9F;
  return sign * std::bit_cast<float>(((exponent + 120U) << 23) | (mantissa << 20));
}

// To nearest even; value is within what E4M3 has, -448 to 448, or NaN.
[[nodiscard]] constexpr std::uint8_t float_to_f8_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return sign | 0x7fU;
  // Below the smallest normal number, 2^-6, steps are 2^-9: those of fp32 next to 2^14.
  if (magnitude < 121U << 23) {
    const float steps = std::bit_cast<float>(magnitude) + 0x1p14F;
    return static_cast<std::uint8_t>(sign |
                                     (std::bit_cast<std::uint32_t>(steps) - std::bit_cast<std::uint32_t>(0x1p14F)));
  }
  const std::uint32_t rounded = magnitude + 0x7ffffU + (magnitude >> 20 & 1U);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20) - (120U << 3)));
}

// Bias 15, as the upper byte of an fp16.
[[nodiscard]] constexpr float f8_e5m2_to_float(std::uint8_t bits) {
  return fp16_to_float(static_cast<std::uint16_t>(bits << 8));
}

// Power of two, bias 127; 0xff is NaN (OCP Microscaling Formats 1.0).
[[nodiscard]] constexpr float e8m0_to_float(std::uint8_t bits) {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  if (bits == 0) return 0x1p-127F;
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 23);
}

}  // namespace tern::checkpoint
