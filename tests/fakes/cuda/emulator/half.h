// Floats of 16 bits: to the nearest, ties to even, with subnormals; a NaN stays one.
#pragma once

#include <bit>
#include <cstdint>
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace tern::cuda::emulated {

inline float half_to_float_plain(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fU, fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13 | (fraction != 0 ? 0x400000U : 0U));
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

inline std::uint16_t float_to_half_plain(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | (magnitude >> 13 & 0x3ffU));
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65520 and more
  if (magnitude < 0x38800000U) {  // subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

inline float half_to_float(std::uint16_t bits) {
#ifdef __F16C__
  return _cvtsh_ss(bits);
#else
  return half_to_float_plain(bits);
#endif
}

inline std::uint16_t float_to_half(float value) {
#ifdef __F16C__
  return static_cast<std::uint16_t>(_cvtss_sh(value, 0));
#else
  return float_to_half_plain(value);
#endif
}

}  // namespace tern::cuda::emulated
