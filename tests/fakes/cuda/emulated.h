// CUDA C++ as far as backends/cuda/cu uses it, for a C++ compiler of the host: cu/common.cuh includes this where nvcc
// doesn't compile. Threads of a block are fibers (emulator/block.h).
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <bit>
#include <cstring>
#include <type_traits>

#include "tests/fakes/cuda/emulator/block.h"
#include "tests/fakes/cuda/emulator/half.h"
#include "tests/fakes/cuda/emulator/kernel.h"

#define DEVICE static inline
#define DEVICE_MEMBER
#define CONSTANT static constexpr
#define SHARED static thread_local
#define UNROLL
#define DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(::tern::cuda::emulated::dynamic_shared())
// list_kernels.cmake reads the kernels' names, those that macros make too, from what the preprocessor leaves of these.
#ifdef TERN_FAKE_CUDA_LISTS_KERNELS
#define KERNEL(name) TERN_KERNEL_BEGIN name | 1024 TERN_KERNEL_END
#define KERNEL_BOUNDED(name, threads, blocks) TERN_KERNEL_BEGIN name | threads TERN_KERNEL_END
#else
#define KERNEL(name) static void name
#define KERNEL_BOUNDED(name, threads, blocks) static void name
#endif

#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (::tern::cuda::emulated::thread().index)
#define blockIdx (::tern::cuda::emulated::thread().block_index)
#define blockDim (::tern::cuda::emulated::thread().block_dim)
#define gridDim (::tern::cuda::emulated::thread().grid_dim)
#define warpSize 32

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

// ---------------------------------------------------------------- memory
template <typename T>
static inline T __ldg(const T* at) {
  return *at;
}
template <typename T>
static inline T __ldcs(const T* at) {
  return *at;
}
template <typename T>
static inline T __ldcg(const T* at) {
  return *at;
}
template <typename T>
static inline void __stcs(T* at, T value) {
  *at = value;
}
template <typename T>
static inline void __stcg(T* at, T value) {
  *at = value;
}
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
[[noreturn]] static inline void __trap() { ::tern::cuda::emulated::fail("__trap"); }

// Of integers only: sums of floats must keep their order.
template <typename T>
concept TernAtomic = std::is_integral_v<T> && sizeof(T) >= 4;
template <TernAtomic T>
static inline T atomicAdd(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <TernAtomic T>
static inline T atomicSub(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_sub(at, value, __ATOMIC_RELAXED);
}
template <TernAtomic T>
static inline T atomicOr(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <TernAtomic T>
static inline T atomicAnd(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_and(at, value, __ATOMIC_RELAXED);
}
template <TernAtomic T>
static inline T atomicXor(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_xor(at, value, __ATOMIC_RELAXED);
}
template <TernAtomic T>
static inline T atomicExch(T* at, std::type_identity_t<T> value) {
  return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);
}
template <TernAtomic T>
static inline T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <TernAtomic T>
static inline T atomicMax(T* at, std::type_identity_t<T> value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <TernAtomic T>
static inline T atomicMin(T* at, std::type_identity_t<T> value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < old && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

// ---------------------------------------------------------------- barriers, and what lanes tell each other
static inline void __syncthreads() { ::tern::cuda::emulated::sync_block(); }
static inline void __syncwarp(unsigned mask = 0xffffffffU) {
  ::tern::cuda::emulated::meet(::tern::cuda::emulated::Meet::syncwarp, mask, nullptr, 0);
}

namespace tern::cuda::emulated {
// What lane `from` gave; the lane itself where `from` is beyond its segment.
template <typename T>
T shuffle(Meet kind, unsigned mask, T value, int from, bool inside) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8);
  const Exchange& exchange = meet(kind, mask, &value, sizeof value);
  if (!inside) return value;
  if ((exchange.present >> from & 1U) == 0) fail("a shuffle reads lane %d, which doesn't take part", from);
  T got;
  std::memcpy(&got, exchange.given[from], sizeof got);
  return got;
}
inline unsigned vote(Meet kind, unsigned mask, bool yes) {
  const Exchange& exchange = meet(kind, mask, &yes, 1);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if ((exchange.present >> lane & 1U) != 0 && exchange.given[lane][0] != 0) votes |= 1U << lane;
  }
  return votes;
}
// Lanes of `mask` that took part: others have returned.
inline unsigned all_votes(unsigned mask, bool yes, bool& all) {
  const Exchange& exchange = meet(Meet::all, mask, &yes, 1);
  all = true;
  for (int lane = 0; lane < 32; ++lane) {
    if ((exchange.present >> lane & 1U) != 0 && exchange.given[lane][0] == 0) all = false;
  }
  return exchange.present;
}
}  // namespace tern::cuda::emulated

template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int lane = static_cast<int>(::tern::cuda::emulated::thread().lane);
  return ::tern::cuda::emulated::shuffle(::tern::cuda::emulated::Meet::shfl, mask, value,
                                         (lane & ~(width - 1)) + (from & (width - 1)), true);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int lane = static_cast<int>(::tern::cuda::emulated::thread().lane), from = lane ^ lanes;
  return ::tern::cuda::emulated::shuffle(::tern::cuda::emulated::Meet::shfl_xor, mask, value, from,
                                         from < (lane & ~(width - 1)) + width);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = static_cast<int>(::tern::cuda::emulated::thread().lane), from = lane - static_cast<int>(delta);
  return ::tern::cuda::emulated::shuffle(::tern::cuda::emulated::Meet::shfl_up, mask, value, from,
                                         from >= (lane & ~(width - 1)));
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = static_cast<int>(::tern::cuda::emulated::thread().lane), from = lane + static_cast<int>(delta);
  return ::tern::cuda::emulated::shuffle(::tern::cuda::emulated::Meet::shfl_down, mask, value, from,
                                         from < (lane & ~(width - 1)) + width);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return ::tern::cuda::emulated::vote(::tern::cuda::emulated::Meet::ballot, mask, predicate != 0);
}
static inline int __any_sync(unsigned mask, int predicate) {
  return ::tern::cuda::emulated::vote(::tern::cuda::emulated::Meet::any, mask, predicate != 0) != 0 ? 1 : 0;
}
static inline int __all_sync(unsigned mask, int predicate) {
  bool all = false;
  ::tern::cuda::emulated::all_votes(mask, predicate != 0, all);
  return all ? 1 : 0;
}

// ---------------------------------------------------------------- the matrix units: cu/tensor_cores.cuh says what these are
namespace tern::cuda::emulated {
inline void multiply(Meet kind, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  const unsigned gift[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const Exchange& exchange = meet(kind, 0xffffffffU, gift, sizeof gift);
  const unsigned lane = thread().lane;
  float product[2][2];
  std::memcpy(product[0], exchange.made + 4 * (lane / 4 * 8 + lane % 4 * 2), 8);
  std::memcpy(product[1], exchange.made + 4 * ((lane / 4 + 8) * 8 + lane % 4 * 2), 8);
  d[0] += product[0][0];
  d[1] += product[0][1];
  d[2] += product[1][0];
  d[3] += product[1][1];
}
inline void load_matrices(Meet kind, unsigned (&r)[4], const void* row) {
  const Exchange& exchange = meet(kind, 0xffffffffU, &row, sizeof row);
  const unsigned lane = thread().lane, line = lane / 4, pair = lane % 4 * 2;
  for (unsigned i = 0; i < 4; ++i) {
    const auto at = [&](unsigned y, unsigned x) {
      unsigned short element;
      std::memcpy(&element, exchange.made + 2 * (64 * i + 8 * y + x), 2);
      return static_cast<unsigned>(element);
    };
    r[i] = kind == Meet::ldmatrix ? at(line, pair) | at(line, pair + 1) << 16 : at(pair, line) | at(pair + 1, line) << 16;
  }
}
inline unsigned short to_bf16(float value) {
  const auto bits = std::bit_cast<unsigned>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
}  // namespace tern::cuda::emulated

static inline void wait_for_previous() { ::tern::cuda::emulated::thread().waited = true; }
static inline void let_next_start() {
  if (!::tern::cuda::emulated::thread().waited) {
    ::tern::cuda::emulated::fail("let_next_start() comes before wait_for_previous()");
  }
}
static inline void begin_overlapped() {
  wait_for_previous();
  let_next_start();
}
static inline void prefetch_line(const void* /*at*/) {}

static inline void mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  ::tern::cuda::emulated::multiply(::tern::cuda::emulated::Meet::mma_bf16, d, a, b);
}
static inline void mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  ::tern::cuda::emulated::multiply(::tern::cuda::emulated::Meet::mma_f16, d, a, b);
}
static inline void ldmatrix_x4(unsigned (&r)[4], const void* row) {
  ::tern::cuda::emulated::load_matrices(::tern::cuda::emulated::Meet::ldmatrix, r, row);
}
static inline void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) {
  ::tern::cuda::emulated::load_matrices(::tern::cuda::emulated::Meet::ldmatrix_trans, r, row);
}
// Copies happen as late as they may: when their group is waited for.
static inline void copy_async(void* shared, const void* global, bool valid) {
  ::tern::cuda::emulated::begin_copy(shared, valid ? global : nullptr);
}
static inline void copy_async_commit() { ::tern::cuda::emulated::commit_copies(); }
template <int groups>
static inline void copy_async_wait() {
  ::tern::cuda::emulated::wait_for_copies(groups);
}
static inline unsigned pack_bf16(float low, float high) {
  return ::tern::cuda::emulated::to_bf16(low) | static_cast<unsigned>(::tern::cuda::emulated::to_bf16(high)) << 16;
}
static inline unsigned pack_f16(float low, float high) {
  return float_to_f16(low) | static_cast<unsigned>(float_to_f16(high)) << 16;
}
