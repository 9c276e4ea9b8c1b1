// The kernels of gemm_kernels.h over the vectors of vec_*.h: included after them, in a file with its `#pragma GCC
// target`.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "backends/cpu/gemm_kernels.h"
#include "backends/cpu/gemm_plain_inl.h"
#include "base/half.h"

namespace tern::cpu {
namespace {

// Products of floats; DotBf16 of gemm_avx512_bf16.cpp is its twin for pairs.
template <typename V>
struct DotF32 {
  using B = typename V::F;
  using F = typename V::F;
  static B load(const std::uint32_t* p) { return V::load(reinterpret_cast<const float*>(p)); }
  static B broadcast(const std::uint32_t* p) { return V::set1(std::bit_cast<float>(*p)); }
  static B of(F x) { return x; }
  static F accumulate(F c, B a, B b) { return V::fma(a, b, c); }
  // A sum is one chain.
  using Sum = F;
  static Sum begin(F from) { return from; }
  static void fold(Sum& /*sum*/) {}
  static F total(Sum sum) { return sum; }
};

// Panels that M rows take at once: few rows alone would wait for each product's latency.
constexpr int panels_at_once(int accumulators, int m) {
  const int fit = accumulators / (2 * m);
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

template <typename V, typename Dot, int M, int P>
inline __attribute__((always_inline)) void full_tile(const Tile& t, const std::uint32_t* b, const float* from,
                                                     std::int64_t ld_from, float* c, std::int64_t ldc) {
  const std::uint32_t* a = t.a;
  const std::int64_t b_panel_stride = t.b_panel_stride, a_stride = t.a_stride;
  constexpr int W = V::width;
  constexpr int N = 2 * P;  // vectors
  typename V::F acc[M][N];
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) acc[i][j] = from != nullptr ? V::load(from + i * ld_from + j * W) : V::zero();
  }
  for (std::int64_t step = 0; step < t.k; ++step) {
    typename Dot::B bv[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) bv[j] = Dot::load(b + (j / 2) * b_panel_stride + (j % 2) * W);
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      const typename Dot::B av = Dot::broadcast(a + i);
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) acc[i][j] = Dot::accumulate(acc[i][j], av, bv[j]);
    }
    a += a_stride;
    b += 2 * W;
  }
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) V::store(c + i * ldc + j * W, acc[i][j]);
  }
}

template <typename V, typename Dot, int Accumulators, int M>
void multiply_rows(const Tile& t) {
  constexpr int NR = 2 * V::width;
  constexpr int P = panels_at_once(Accumulators, M);
  int column = 0, panel = 0;
  const auto from = [&](int at) { return t.from == nullptr ? nullptr : t.from + at; };
  if constexpr (P > 1) {
    for (; t.n - column >= P * NR; column += P * NR, panel += P) {
      full_tile<V, Dot, M, P>(t, t.b + panel * t.b_panel_stride, from(column), t.ld_from, t.c + column, t.ldc);
    }
  }
  for (; t.n - column >= NR; column += NR, ++panel) {
    full_tile<V, Dot, M, 1>(t, t.b + panel * t.b_panel_stride, from(column), t.ld_from, t.c + column, t.ldc);
  }
  if (column == t.n) return;
  float edge[M * NR] = {};
  const auto bytes = static_cast<std::size_t>(t.n - column) * sizeof(float);
  for (int i = 0; t.from != nullptr && i < M; ++i) std::memcpy(edge + i * NR, from(column) + i * t.ld_from, bytes);
  full_tile<V, Dot, M, 1>(t, t.b + panel * t.b_panel_stride, edge, NR, edge, NR);
  for (int i = 0; i < M; ++i) std::memcpy(t.c + column + i * t.ldc, edge + i * NR, bytes);
}

template <typename V, typename Dot, int MR, int Accumulators>
void multiply_any(const Tile& tile) {
  static constexpr auto table = []<int... I>(std::integer_sequence<int, I...>) {
    return std::array<void (*)(const Tile&), MR>{&multiply_rows<V, Dot, Accumulators, I + 1>...};
  }
  (std::make_integer_sequence<int, MR>{});
  table[static_cast<std::size_t>(tile.m - 1)](tile);
}

template <typename V>
void widen_any(tern_dtype dtype, const void* src, float* dst, std::int64_t n) {
  constexpr int W = V::width;
  std::int64_t i = 0;
  if (dtype == TERN_F32) {
    std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(float));
  } else if (dtype == TERN_BF16) {
    const auto* from = static_cast<const std::uint16_t*>(src);
    for (; i + W <= n; i += W) V::store(dst + i, V::load_bf16(from + i));
    for (; i < n; ++i) dst[i] = bf16_to_float(from[i]);
  } else {
    const auto* from = static_cast<const std::uint16_t*>(src);
    for (; i + W <= n; i += W) V::store(dst + i, V::load_f16(from + i));
    for (; i < n; ++i) dst[i] = fp16_to_float(from[i]);
  }
}

template <typename V>
void narrow_any(tern_dtype dtype, const float* src, void* dst, std::int64_t n) {
  constexpr int W = V::width;
  std::int64_t i = 0;
  auto* to = static_cast<std::uint16_t*>(dst);
  if (dtype == TERN_F32) {
    std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(float));
  } else if (dtype == TERN_BF16) {
    for (; i + W <= n; i += W) V::store_bf16(to + i, V::load(src + i));
    for (; i < n; ++i) to[i] = float_to_bf16(src[i]);
  } else {
    for (; i + W <= n; i += W) V::store_f16(to + i, V::load(src + i));
    for (; i < n; ++i) to[i] = float_to_fp16(src[i]);
  }
}

template <typename V>
void round_any(tern_dtype dtype, float* x, std::int64_t n) {
  constexpr int W = V::width;
  std::int64_t i = 0;
  if (dtype == TERN_BF16) {
    for (; i + W <= n; i += W) V::store(x + i, V::round_bf16(V::load(x + i)));
    for (; i < n; ++i) x[i] = bf16_to_float(float_to_bf16(x[i]));
  } else if (dtype == TERN_F16) {
    for (; i + W <= n; i += W) V::store(x + i, V::round_f16(V::load(x + i)));
    for (; i < n; ++i) x[i] = fp16_to_float(float_to_fp16(x[i]));
  }
}

template <typename V>
void expand_any(tern_packing packing, const std::uint8_t* src, std::int64_t blocks, float* dst) {
  constexpr int W = V::width;
  for (; blocks > 0; --blocks, dst += 32) {
    const float scale = V::half(src);
    if (packing == TERN_PACK_GGUF_Q8_0) {
      for (int i = 0; i < 32; i += W) {
        V::store(dst + i, V::mul(V::set1(scale), V::load_i8(reinterpret_cast<const std::int8_t*>(src + 2 + i))));
      }
      src += 34;
      continue;
    }
    const bool has_minimum = packing == TERN_PACK_GGUF_Q4_1;
    const std::uint8_t* data = src + (has_minimum ? 4 : 2);
    V::expand_nibbles(scale, has_minimum ? V::half(src + 2) : -8.0F * scale, data, dst);
    src = data + 16;
  }
}

// The same, rounded to bf16.
template <typename V>
void expand_bf16_any(tern_packing packing, const std::uint8_t* src, std::int64_t blocks, std::uint16_t* dst) {
  const std::int64_t bytes = packing == TERN_PACK_GGUF_Q8_0 ? 34 : packing == TERN_PACK_GGUF_Q4_1 ? 20 : 18;
  for (; blocks > 0; --blocks, dst += 32, src += bytes) {
    float wide[32];
    expand_any<V>(packing, src, 1, wide);
    narrow_any<V>(TERN_BF16, wide, dst, 32);
  }
}

template <typename V>
void transpose_any(const std::uint32_t* src, std::int64_t ld_src, int rows, std::int64_t columns, std::uint32_t* dst,
                   std::int64_t ld_dst) {
  constexpr int W = V::width;
  for (int r = 0; r < ld_dst; r += W) {
    const int have = std::clamp(rows - r, 0, W);
    const auto keep = static_cast<std::size_t>(std::min<std::int64_t>(W, ld_dst - r));
    for (std::int64_t c = 0; c < columns; c += W) {
      const std::uint32_t* from = src + r * ld_src + c;
      // A square wider than ld_dst spills into lines of dst that are written after it, but never past the last.
      if (columns - c >= W && (keep == W || (r == 0 && ld_dst <= W && (columns - c - W + 1) * ld_dst >= W))) {
        V::transpose(from, ld_src, have, dst + c * ld_dst + r, ld_dst);
        continue;
      }
      std::uint32_t square[W * W] = {}, turned[W * W];
      const auto wide = static_cast<std::size_t>(std::min<std::int64_t>(W, columns - c));
      for (int i = 0; i < have; ++i) std::memcpy(square + i * W, from + i * ld_src, wide * 4);
      V::transpose(square, W, W, turned, W);
      for (std::size_t i = 0; i < wide; ++i) {
        std::memcpy(dst + (c + static_cast<std::int64_t>(i)) * ld_dst + r, turned + i * W, keep * 4);
      }
    }
  }
}

template <typename V>
void add_any(const float* x, float* y, std::int64_t n) {
  constexpr int W = V::width;
  std::int64_t i = 0;
  for (; i + W <= n; i += W) V::store(y + i, V::add(V::load(x + i), V::load(y + i)));
  for (; i < n; ++i) y[i] += x[i];
}

template <typename V>
void zip_any(const std::uint16_t* low, const std::uint16_t* high, std::uint32_t* dst, std::int64_t n) {
  constexpr int W = V::width;
  std::int64_t i = 0;
  for (; i + W <= n; i += W) V::zip(low + i, high + i, dst + i);
  for (; i < n; ++i) dst[i] = low[i] | static_cast<std::uint32_t>(high[i]) << 16;
}

// `Accumulators`: vectors of the register file that may hold sums.
template <typename V, int MR, int Accumulators>
constexpr GemmKernels make_kernels() {
  return {MR,
          2 * V::width,
          &multiply_any<V, DotF32<V>, MR, Accumulators>,
          nullptr,
          &multiply_plain_any<V, DotF32<V>>,
          nullptr,
          &widen_any<V>,
          &narrow_any<V>,
          &round_any<V>,
          &expand_any<V>,
          &expand_bf16_any<V>,
          &transpose_any<V>,
          &zip_any<V>,
          &add_any<V>};
}

}  // namespace
}  // namespace tern::cpu
