// Whole numbers of 16 bits in 128-bit registers: SSE4.2 on x86-64-v2, NEON on Arm 64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/half.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

namespace tern::cpu {
namespace {

typedef std::int16_t Eight16 __attribute__((vector_size(16)));
typedef std::uint16_t EightU16 __attribute__((vector_size(16)));
typedef std::int32_t Four32 __attribute__((vector_size(16)));
typedef float FourF __attribute__((vector_size(16)));

struct Whole128 {
  struct W {  // 16 of int16
    Eight16 low, high;
  };
  using I = Four32;
  using F = FourF;
  static constexpr int kMostRows = 4;

  TERN_INLINE F zero() { return F{}; }
  TERN_INLINE I none() { return I{}; }
  TERN_INLINE W bytes(const std::uint8_t* p) { return {widened<std::uint8_t>(p), widened<std::uint8_t>(p + 8)}; }
  TERN_INLINE W signed_bytes(const std::uint8_t* p) { return {widened<std::int8_t>(p), widened<std::int8_t>(p + 8)}; }
  TERN_INLINE W both(W a, int mask) {
    const auto bits = static_cast<std::int16_t>(mask);
    return {a.low & bits, a.high & bits};
  }
  TERN_INLINE W either(W a, W b) { return {a.low | b.low, a.high | b.high}; }
  TERN_INLINE W right(W a, int bits) { return {shifted_right(a.low, bits), shifted_right(a.high, bits)}; }
  TERN_INLINE W left(W a, int bits) { return {a.low << bits, a.high << bits}; }
  TERN_INLINE W minus(W a, int b) {
    const auto by = static_cast<std::int16_t>(b);
    return {a.low - by, a.high - by};
  }
  TERN_INLINE W where(std::uint16_t bits, int value) {
    const Eight16 each = {1, 2, 4, 8, 16, 32, 64, 128};
    const auto from = [&](int eight) {
      return Eight16((Eight16(each & static_cast<std::int16_t>(eight)) == each) & static_cast<std::int16_t>(value));
    };
    return {from(bits & 255), from(bits >> 8)};
  }
  TERN_INLINE W look_up(const std::int8_t* table, const std::uint8_t* p, bool high) {
    std::int8_t found[16];
    for (int i = 0; i < 16; ++i) found[i] = table[high ? p[i] >> 4 : p[i] & 15];
    return signed_bytes(reinterpret_cast<const std::uint8_t*>(found));
  }
  TERN_INLINE I dot(I sum, W w, const std::int16_t* x) {
    Eight16 low, high;
    std::memcpy(&low, x, 16);
    std::memcpy(&high, x + 8, 16);
    return pairs(pairs(sum, w.low, low), w.high, high);
  }
  TERN_INLINE F scaled(F acc, I sum, float scale) { return acc + __builtin_convertvector(sum, F) * scale; }
  TERN_INLINE F added(F acc, float by, const float* sum) { return acc + by * (0.25F * *sum); }
  TERN_INLINE F add_eight(F acc, const float* a, const float* b) {
    return (acc + four(a) * four(b)) + four(a + 4) * four(b + 4);
  }
  TERN_INLINE void multiply_eight(const float* a, const float* b, float* to) {
    for (int i = 0; i < 8; i += 4) {
      const F product = four(a + i) * four(b + i);
      std::memcpy(to + i, &product, 16);
    }
  }
  TERN_INLINE void eight(std::uint64_t bytes, float by, float* to) {
    for (int i = 0; i < 8; ++i) to[i] = static_cast<float>(bytes >> (8 * i) & 255) * by;
  }
  TERN_INLINE void deal(const std::uint8_t* p, std::uint8_t* to) {
    for (int i = 0; i < 16; ++i) to[i] = p[i % 8 * 2 + i / 8];
  }
  TERN_INLINE void two_halves(const std::uint8_t* p, float& first, float& second) {
    first = half(p);
    second = half(p + 2);
  }
  TERN_INLINE void eight_pairs(const std::uint8_t* p, std::int64_t stride, float* first, float* second) {
    for (int i = 0; i < 8; ++i) two_halves(p + i * stride, first[i], second[i]);
  }
  TERN_INLINE void eight_halves(const std::uint8_t* p, std::int64_t stride, float* to) {
    for (int i = 0; i < 8; ++i) to[i] = half(p + i * stride);
  }
  // Codes times scales are exact in fp32, so that this too is rounded once.
  TERN_INLINE void expand(W codes, float scale, float minimum, float* dst) {
    for (int i = 0; i < 16; ++i)
      dst[i] = static_cast<float>(i < 8 ? codes.low[i] : codes.high[i - 8]) * scale + minimum;
  }
  TERN_INLINE float total(F a) { return (a[0] + a[2]) + (a[1] + a[3]); }
  TERN_INLINE float half(const std::uint8_t* p) {
    std::uint16_t bits;
    std::memcpy(&bits, p, 2);
    return fp16_to_float(bits);
  }

  TERN_INLINE std::uint32_t largest_bits(const float* x) {
    std::uint32_t most = 0;
    for (int i = 0; i < 32; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, x + i, 4);
      most = std::max(most, bits & 0x7fffffffU);
    }
    return most;
  }
  TERN_INLINE void round(const float* x, float factor, std::int16_t* q, std::int32_t* sums) {
    for (int i = 0; i < 32; ++i) {
      q[i] = static_cast<std::int16_t>(std::nearbyint(x[i] * factor));
      sums[i / 16] += q[i];
    }
  }

 private:
  TERN_INLINE F four(const float* p) {
    F out;
    std::memcpy(&out, p, 16);
    return out;
  }
  template <typename Byte>
  TERN_INLINE Eight16 widened(const std::uint8_t* p) {
    typedef Byte Bytes __attribute__((vector_size(8)));
    Bytes eight;
    std::memcpy(&eight, p, 8);
    return __builtin_convertvector(eight, Eight16);
  }
  TERN_INLINE Eight16 shifted_right(Eight16 a, int bits) { return Eight16(EightU16(a) >> bits); }
  TERN_INLINE Four32 pairs(Four32 sum, Eight16 a, Eight16 b) {
#if defined(__aarch64__)
    const auto left = int16x8_t(a), right = int16x8_t(b);
    return Four32(vmlal_high_s16(vmlal_s16(int32x4_t(sum), vget_low_s16(left), vget_low_s16(right)), left, right));
#else
    return sum + Four32(_mm_madd_epi16(__m128i(a), __m128i(b)));
#endif
  }
};

}  // namespace
}  // namespace tern::cpu
