// Launches that overlap, and what cu/tensor_cores.cuh has of the matrix units, for emulated.h, which includes this.
#pragma once

#include <bit>
#include <cstring>

#include "tests/fakes/cuda/emulator/block.h"
#include "tests/fakes/cuda/emulator/half.h"

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
