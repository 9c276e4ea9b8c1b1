// Vectors, bits and arithmetic of CUDA C++, for emulated.h, which includes this.
#pragma once

#include <math.h>

#include <bit>
#include <cstring>
#include <type_traits>

#include "tests/fakes/cuda/emulator/half.h"

// ---------------------------------------------------------------- vectors
#define TERN_VECTORS(T, name, bytes)                                                               \
  struct __attribute__((aligned(bytes))) name##2 {                                                 \
    T x, y;                                                                                        \
  };                                                                                               \
  struct name##3 {                                                                                 \
    T x, y, z;                                                                                     \
  };                                                                                               \
  struct __attribute__((aligned((bytes) >= 8 ? 16 : 2 * (bytes)))) name##4 {                        \
    T x, y, z, w;                                                                                  \
  };                                                                                               \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                        \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TERN_VECTORS(float, float, 8)
TERN_VECTORS(int, int, 8)
TERN_VECTORS(unsigned, uint, 8)
TERN_VECTORS(double, double, 16)
TERN_VECTORS(long, long, 16)
TERN_VECTORS(unsigned long, ulong, 16)
TERN_VECTORS(long long, longlong, 16)
TERN_VECTORS(unsigned long long, ulonglong, 16)
TERN_VECTORS(short, short, 4)
TERN_VECTORS(unsigned short, ushort, 4)
TERN_VECTORS(signed char, char, 2)
TERN_VECTORS(unsigned char, uchar, 2)
#undef TERN_VECTORS
using dim3 = ::tern::cuda::emulated::Dim;

// ---------------------------------------------------------------- bits and numbers
static inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
static inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
static inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
static inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
static inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
static inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
static inline float f16_to_float(unsigned short bits) { return ::tern::cuda::emulated::half_to_float(bits); }
static inline unsigned short float_to_f16(float value) { return ::tern::cuda::emulated::float_to_half(value); }

static inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
static inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
static inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>((static_cast<__int128>(a) * b) >> 64);
}
static inline int __popc(unsigned value) { return std::popcount(value); }
static inline int __popcll(unsigned long long value) { return std::popcount(value); }
static inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
static inline int __clzll(long long value) { return std::countl_zero(static_cast<unsigned long long>(value)); }
static inline int __ffs(int value) { return __builtin_ffs(value); }
static inline int __ffsll(long long value) { return __builtin_ffsll(value); }
static inline unsigned __brev(unsigned value) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (value >> i & 1U) << (31 - i);
  return reversed;
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7U)) & 0xffU) << (8 * i);
  }
  return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31U)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31U));
}
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += static_cast<signed char>(a >> (8 * i)) * static_cast<signed char>(b >> (8 * i));
  return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 0xffU) * (b >> (8 * i) & 0xffU);
  return c;
}

// The C library has some of these names itself.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
static inline double rsqrt(double a) { return 1.0 / sqrt(a); }
static inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }
static inline int __float2int_rn(float a) { return static_cast<int>(rintf(a)); }
static inline int __float2int_rz(float a) { return static_cast<int>(a); }
static inline int __float2int_rd(float a) { return static_cast<int>(floorf(a)); }
static inline int __float2int_ru(float a) { return static_cast<int>(ceilf(a)); }
static inline unsigned __float2uint_rn(float a) { return static_cast<unsigned>(rintf(a)); }
static inline float __int2float_rn(int a) { return static_cast<float>(a); }
static inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
static inline void sincospif(float a, float* sine, float* cosine) {
  *sine = static_cast<float>(sin(M_PI * a));
  *cosine = static_cast<float>(cos(M_PI * a));
}
// As CUDA has them: of two integers the common type; of floats the number where the other is NaN.
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) static constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(a) != static_cast<T>(a) || static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
  } else {
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
  }
}
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) static constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(a) != static_cast<T>(a) || static_cast<T>(b) > static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
  } else {
    return static_cast<T>(b) > static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
  }
}
