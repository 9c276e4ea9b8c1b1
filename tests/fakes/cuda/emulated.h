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

#include "tests/fakes/cuda/emulated_numbers.h"

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

#include "tests/fakes/cuda/emulated_matrix.h"
