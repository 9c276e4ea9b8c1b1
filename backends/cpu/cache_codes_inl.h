// The codes of a cache of 8 bits (ops/kv_write.h), over the vectors of vec_*.h: for attention_kernels_inl.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/attention_direct_inl.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kCodes = 16;  // at once: a whole number of every target's vectors

template <typename V>
void mul_any(float* x, const float* factors, std::int64_t n) {
  constexpr int W = V::width;
  std::int64_t i = 0;
  for (; i + W <= n; i += W) V::store(x + i, V::mul(V::load(x + i), V::load(factors + i)));
  for (; i < n; ++i) x[i] *= factors[i];
}

template <typename V>
float largest_any(const float* x, std::int64_t n) {
  constexpr int W = V::width;
  typename V::F most = V::zero();
  std::int64_t i = 0;
  for (; i + W <= n; i += W) most = V::max(most, V::abs(V::load(x + i)));
  if (i < n) most = V::max(most, V::abs(V::load_part(x + i, static_cast<int>(n - i))));
  return V::largest(most);
}

// |x| <= 448: three bits behind the leading one, or from 2^-6 down multiples of 2^-9, which 2^14 + |x| rounds to.
inline std::uint8_t e4m3_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = ((magnitude + 0x7ffffU + (magnitude >> 20 & 1U)) >> 20) - (120U << 3);
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14F) - 0x46800000U;
  const std::uint32_t code = magnitude < 0x3c800000U ? small : normal;
  return static_cast<std::uint8_t>(code | (bits >> 24 & 0x80U));
}

template <typename V>
inline __attribute__((always_inline)) void encode_some(tern_dtype dtype, const float* x, typename V::F scale,
                                                       std::byte* to) {
  float scaled[kCodes];
  for (std::int64_t i = 0; i < kCodes; i += V::width) {
    const typename V::F y = V::div(V::load(x + i), scale);
    V::store(scaled + i, dtype == TERN_I8 ? V::round(y) : y);
  }
  std::uint8_t codes[kCodes];
  if (dtype == TERN_I8) {
    for (std::int64_t i = 0; i < kCodes; ++i)
      codes[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(scaled[i]));
  } else {
    for (std::int64_t i = 0; i < kCodes; ++i) codes[i] = e4m3_bits(scaled[i]);
  }
  std::memcpy(to, codes, kCodes);
}

template <typename V>
void encode_any(tern_dtype dtype, const float* x, float scale, std::int64_t n, std::byte* to) {
  const typename V::F by = V::set1(scale);
  std::int64_t i = 0;
  for (; i + kCodes <= n; i += kCodes) encode_some<V>(dtype, x + i, by, to + i);
  if (i == n) return;
  float rest[kCodes] = {};
  std::byte codes[kCodes];
  std::copy(x + i, x + n, rest);
  encode_some<V>(dtype, rest, by, codes);
  std::copy(codes, codes + (n - i), to + i);
}

template <typename V, tern_dtype Dtype>
void widen_codes_of(const std::byte* from, std::int64_t n, std::uint16_t* to) {
  constexpr int W = V::width;
  std::int64_t i = 0;
  for (; i + W <= n; i += W) V::store_bf16(to + i, stored<V, Dtype>(from, i));
  if (i == n) return;
  std::byte rest[W] = {};
  std::uint16_t wide[W];
  std::copy(from + i, from + n, rest);
  V::store_bf16(wide, stored<V, Dtype>(rest, 0));
  std::copy(wide, wide + (n - i), to + i);
}

template <typename V>
void widen_codes_any(tern_dtype dtype, const std::byte* from, std::int64_t n, std::uint16_t* to) {
  if (dtype == TERN_I8) return widen_codes_of<V, TERN_I8>(from, n, to);
  widen_codes_of<V, TERN_F8_E4M3>(from, n, to);
}

}  // namespace
}  // namespace tern::cpu
