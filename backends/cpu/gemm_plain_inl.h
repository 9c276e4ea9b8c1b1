// Few rows by a right side as it is stored: PlainTile's loops, over the vectors of vec_*.h, for gemm_kernels_inl.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/gemm_kernels.h"

namespace tern::cpu {
namespace {

constexpr int kLineWords = 16;  // 32-bit elements of a line of the cache

// Asks for `lines` lines of the cache, side by side.
inline __attribute__((always_inline)) void fetch(const std::uint32_t* from, std::int64_t lines) {
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < lines; ++i) __builtin_prefetch(from + i * kLineWords, 0, 3);
}

// G vectors of columns, n columns in all: four steps of k are turned in registers and taken for every row. Each
// vector's sums are one chain, so several of them hide each other's latency.
template <typename V, typename Dot, int M, int G>
inline __attribute__((always_inline)) void plain_columns(const PlainTile& t, int column, int n) {
  constexpr int W = V::width;
  alignas(64) std::uint32_t square[W * W];
  alignas(64) float edge[W];
  using Sum = typename Dot::Sum;
  Sum acc[G][M];
  const auto each = [&](auto&& action) {
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) action(acc[g][i], i, g * W, static_cast<std::size_t>(std::min(W, n - g * W)) * 4);
    }
  };
  each([&](Sum& sum, int row, int at, std::size_t bytes) {
    sum = Dot::begin(V::zero());
    if (t.from == nullptr) return;
    std::fill_n(edge, W, 0.0F);
    std::memcpy(edge, t.from + row * t.ld_from + column + at, bytes);
    sum = Dot::begin(V::load(edge));
  });
  const auto fold = [](Sum(&sums)[M]) {
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) Dot::fold(sums[i]);
  };
  const auto add = [&](Sum(&sums)[M], const std::uint32_t* b, std::int64_t b_stride, const std::uint32_t* a) {
    typename V::F turned[4];
    V::turn4(b, b_stride, turned);
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) {
        sums[i] = Dot::accumulate(sums[i], Dot::broadcast(a + s * t.a_stride + i), Dot::of(turned[s]));
      }
    }
  };
  const std::uint32_t* b = t.b + column * t.b_stride;
  const std::int64_t whole = n < G * W ? 0 : (t.half ? t.k - 1 : t.k) / kLineWords * kLineWords;
  const bool is_last = t.n - column < 2 * G * W;  // no such columns come after these
  for (std::int64_t k = 0; k < whole; k += kLineWords) {
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      const std::uint32_t* from = b + g * W * t.b_stride + k;
      // The columns that come next are fetched in the order in which they lie: the processor then reads on by itself.
#pragma GCC unroll 4
      for (int q = 0; q < kLineWords; q += 4) {
        if (!is_last) fetch(b + (G + g) * W * t.b_stride + (k + q) * W, W / 4);
        add(acc[g], from + q, t.b_stride, t.a + (k + q) * t.a_stride);
      }
      fold(acc[g]);
    }
  }
  // What is left of k, or all of it where columns are missing: where no four steps are, by way of a square with zeros.
  for (std::int64_t k = whole; k < t.k; k += W) {
    const auto steps = static_cast<int>(std::min<std::int64_t>(W, t.k - k));
    const auto bytes = static_cast<std::size_t>(steps) * 4 - (t.half && k + steps == t.k ? 2 : 0);
    const int fours = n < G * W ? 0 : (t.half && k + steps == t.k ? steps - 1 : steps) / 4 * 4;
    for (int g = 0; g < G; ++g) {
      const std::uint32_t* from = b + g * W * t.b_stride + k;
      for (int q = 0; q < fours; q += 4) add(acc[g], from + q, t.b_stride, t.a + (k + q) * t.a_stride);
      if (fours == steps) {
        fold(acc[g]);
        continue;
      }
      std::fill_n(square, W * W, 0U);
      for (int i = 0; i < std::min(W, n - g * W); ++i) {
        std::memcpy(square + i * W, b + (g * W + i) * t.b_stride + k, bytes);
      }
      for (int s = fours; s < steps; s += 4) {
        typename V::F turned[4];
        V::turn4(square + s, W, turned);
        for (int r = 0; r < std::min(4, steps - s); ++r) {
          for (int i = 0; i < M; ++i) {
            acc[g][i] =
                Dot::accumulate(acc[g][i], Dot::broadcast(t.a + (k + s + r) * t.a_stride + i), Dot::of(turned[r]));
          }
        }
      }
      fold(acc[g]);
    }
  }
  each([&](Sum& sum, int row, int at, std::size_t bytes) {
    V::store(edge, Dot::total(sum));
    std::memcpy(t.c + row * t.ldc + column + at, edge, bytes);
  });
}

// One vector of columns at a time: few enough that the first cache holds what is fetched ahead. A single row takes two,
// as its sums would wait for each other.
template <typename V, typename Dot, int M>
void multiply_plain_rows(const PlainTile& t) {
  constexpr int W = V::width, G = M == 1 ? 2 : 1;
  fetch(t.b, std::min<std::int64_t>(G * W, t.n) * t.b_stride / kLineWords);
  int column = 0;
  for (; t.n - column >= G * W; column += G * W) plain_columns<V, Dot, M, G>(t, column, G * W);
  for (; column < t.n; column += W) plain_columns<V, Dot, M, 1>(t, column, std::min(W, t.n - column));
}

template <typename V, typename Dot>
void multiply_plain_any(const PlainTile& tile) {
  static constexpr auto table = []<int... I>(std::integer_sequence<int, I...>) {
    return std::array<void (*)(const PlainTile&), kPlainRows>{&multiply_plain_rows<V, Dot, I + 1>...};
  }
  (std::make_integer_sequence<int, kPlainRows>{});
  table[static_cast<std::size_t>(tile.m - 1)](tile);
}

}  // namespace
}  // namespace tern::cpu
