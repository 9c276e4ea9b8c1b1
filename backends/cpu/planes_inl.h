// The loops of planes.h over the registers P of planes_*.cpp: included inside a target region.
//
// P::U holds W words of 32 bits, P::F as many floats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/planes.h"

namespace tern::cpu {
namespace {

constexpr int kNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of a word of AWQ: where column i lies
constexpr int kColumn[8] = {0, 2, 4, 6, 1, 3, 5, 7};  // and which column nibble i is

template <typename V>
TERN_INLINE V loaded(const void* from) {
  V out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

// count words of 4 bytes, then zeros.
template <typename V>
TERN_INLINE V first_of(const void* from, std::int64_t count) {
  V out = {};
  std::memcpy(&out, from, static_cast<std::size_t>(count) * 4);
  return out;
}

template <typename P>
void planes_int8(const std::uint8_t* codes, float scale, float* dst, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += P::W) P::store(dst + i, P::from_i8(codes + i) * scale);
}

template <typename P>
void planes_f8(const std::uint8_t* codes, float scale, float* dst, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += P::W) P::store(dst + i, P::from_f8(codes + i) * scale);
}

template <typename P>
void planes_levels4(const std::uint8_t* pairs, const float* numbers, float scale, float* dst, std::int64_t n) {
  const auto levels = P::levels(numbers);
  for (std::int64_t i = 0; i < n; i += P::W) P::store(dst + i, P::from_levels4(levels, pairs + i / 2) * scale);
}

template <typename P>
TERN_INLINE void store_scaled(typename P::U codes, const float* scales, const float* zeros, float* dst) {
  using F = typename P::F;
  const F numbers = __builtin_convertvector(typename P::I(codes), F);
  P::store(dst, (numbers - loaded<F>(zeros)) * loaded<F>(scales));
}

template <typename P>
void planes_awq(const std::uint32_t* words, const float* scales, const float* zeros, float* dst, std::int64_t n) {
  typename P::U shifts;
  for (int i = 0; i < P::W; ++i) shifts[i] = static_cast<std::uint32_t>(4 * kNibble[i % 8]);
  std::int64_t i = 0;
  for (; n - i >= P::W && P::W >= 8; i += P::W)
    store_scaled<P>((P::spread(words + i / 8) >> shifts) & 15U, scales + i, zeros + i, dst + i);
  for (; i < n; ++i) {
    const auto code = static_cast<std::int32_t>(words[i / 8] >> (4 * kNibble[i % 8]) & 15U);
    dst[i] = (static_cast<float>(code) - zeros[i]) * scales[i];
  }
}

template <typename P>
void planes_gptq(const GptqCodes& codes, const float* scales, const float* zeros, float* dst, std::int64_t n) {
  using U = typename P::U;
  const std::uint32_t mask = (1U << codes.bits) - 1U, shift = static_cast<std::uint32_t>(codes.shift);
  std::int64_t i = 0;
  for (; n - i >= P::W; i += P::W) {
    U code = loaded<U>(codes.words + i) >> shift;
    if (codes.next != nullptr) code |= loaded<U>(codes.next + i) << (32U - shift);
    store_scaled<P>(code & mask, scales + i, zeros + i, dst + i);
  }
  for (; i < n; ++i) dst[i] = (static_cast<float>(static_cast<std::int32_t>(codes.at(i))) - zeros[i]) * scales[i];
}

// Eight registers of outputs by 32 inputs, as pairs of codes less the zero point. An output has a place here: of AWQ
// register j holds nibble j of W words, of GPTQ it holds W neighbours.
template <typename P>
struct AcrossTile {
  static constexpr std::int64_t kColumns = 8 * P::W;
  using U = typename P::U;
  using Halves = typename P::Halves;
  alignas(64) std::int32_t pairs[16][kColumns];

  // `zeros`: of each place twice, as two int16.
  TERN_INLINE void put(std::int32_t (*to)[kColumns], int at, U low, U high, const std::int32_t* zeros) {
    const Halves both = Halves(low | high << 16U) - loaded<Halves>(zeros + at * P::W);
    std::memcpy(to[0] + at * P::W, &both, sizeof both);
  }
  inline __attribute__((always_inline)) void awq(const AcrossWeight& w, std::int64_t row, std::int64_t column,
                                                 std::int64_t n, const std::int32_t* zeros) {
    const std::uint32_t* words = w.words_at(row, column);
    const std::int64_t step = w.stride / 8, count = std::min<std::int64_t>(P::W, n / 8);
    for (int i = 0; i < 16; ++i, words += 2 * step) {
      const U a = count == P::W ? loaded<U>(words) : first_of<U>(words, count);
      const U b = count == P::W ? loaded<U>(words + step) : first_of<U>(words + step, count);
#pragma GCC unroll 8
      for (unsigned j = 0; j < 8; ++j) put(pairs + i, static_cast<int>(j), a >> 4 * j & 15U, b >> 4 * j & 15U, zeros);
    }
  }
  inline __attribute__((always_inline)) void gptq(const AcrossWeight& w, std::int64_t row, std::int64_t column,
                                                  std::int64_t n, const std::int32_t* zeros) {
    const auto bits = static_cast<std::uint32_t>(w.bits());
    const std::uint32_t mask = (1U << bits) - 1U;
    const int each = 16 / w.bits();  // pairs of a word
    for (int i = 0; i < 16; i += each) {
      const std::uint32_t* words = w.words_at(row + 2 * i, column);
      for (int v = 0; v < 8; ++v) {
        const std::int64_t left = std::clamp<std::int64_t>(n - v * P::W, 0, P::W);
        const U word = left == P::W ? loaded<U>(words + v * P::W)
                       : left == 0  ? U{}
                                    : first_of<U>(words + v * P::W, left);
        for (int p = 0; p < each; ++p) {
          const std::uint32_t shift = 2U * bits * static_cast<std::uint32_t>(p);
          put(pairs + i + p, v, word >> shift & mask, word >> (shift + bits) & mask, zeros);
        }
      }
    }
  }
  // Three words of an output hold 32 codes.
  inline __attribute__((always_inline)) void gptq3(const AcrossWeight& w, std::int64_t row, std::int64_t column,
                                                   std::int64_t n, const std::int32_t* zeros) {
    const std::uint32_t* words = w.words_at(row, column);
    for (int v = 0; v < 8; ++v, words += P::W) {
      const std::int64_t left = std::clamp<std::int64_t>(n - v * P::W, 0, P::W);
      U word[4] = {};
      for (int i = 0; i < 3 && left > 0; ++i)
        word[i] = left == P::W ? loaded<U>(words + i * w.stride) : first_of<U>(words + i * w.stride, left);
#pragma GCC unroll 16
      for (unsigned i = 0; i < 16; ++i) {
        const auto code = [&](unsigned bit) {
          const unsigned at = bit / 32, shift = bit % 32;
          const U low = word[at] >> shift;
          return (shift > 29 ? low | word[at + 1] << (32 - shift) : low) & 7U;
        };
        put(pairs + i, v, code(6 * i), code(6 * i + 3), zeros);
      }
    }
  }
  // acc[place] += what the block adds to row `at` of x (its block's index).
  inline __attribute__((always_inline)) void multiply(const X15Rows& x, std::int64_t at, const float* scales,
                                                      float* acc) const {
    using F = typename P::F;
    const std::int16_t* q = x.blocks[at].q;
    typename P::I sums[8];
#pragma GCC unroll 8
    for (auto& sum : sums) sum = typename P::I{};
#pragma GCC unroll 4
    for (int i = 0; i < 16; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < 8; ++v) sums[v] = P::dot(sums[v], pairs[i] + v * P::W, q + 2 * i);
    }
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      const F scaled = loaded<F>(scales + v * P::W) * x.scales[at];
      P::store(acc + v * P::W, loaded<F>(acc + v * P::W) + __builtin_convertvector(sums[v], F) * scaled);
    }
  }
};

// Output of a place in a tile.
template <typename P>
TERN_INLINE std::int64_t output_of(bool awq, std::int64_t place) {
  return awq ? 8 * (place % P::W) + kColumn[place / P::W] : place;
}

// Scales of a tile's places in a group, and their zero points twice; 0 past the last output.
template <typename P>
void place_scales(const AcrossWeight& w, std::int64_t group, std::int64_t column, std::int64_t n, float* scales,
                  std::int32_t* zeros) {
  constexpr std::int64_t kColumns = AcrossTile<P>::kColumns;
  const bool awq = w.scheme.packing == TERN_PACK_AWQ_INT4;
  float by[kColumns] = {};
  std::int32_t zero[kColumns] = {};
  across_scales(w, group, column, n, by, zero);
  for (std::int64_t p = 0; p < kColumns; ++p) {
    const std::int64_t c = output_of<P>(awq, p);
    scales[p] = by[c];
    zeros[p] = zero[c] | zero[c] << 16;
  }
}

// Tiles lie side by side, so that a row's part of the planes is read at once.
template <typename P>
void planes_multiply(const AcrossWeight& w, std::int64_t column, std::int64_t n, const X15Rows& x, float* y,
                     std::int64_t ld) {
  constexpr std::int64_t kColumns = AcrossTile<P>::kColumns, kAhead = 64;
  const bool awq = w.scheme.packing == TERN_PACK_AWQ_INT4;
  AcrossTile<P> tile;
  alignas(64) float scales[kAcrossColumns], acc[kX15MostLanes * kAcrossColumns];
  alignas(64) std::int32_t zeros[kAcrossColumns];
  std::fill_n(acc, x.rows * kAcrossColumns, 0.0F);
  const std::int64_t rows_ahead = awq ? 1 : 32 / w.bits(), words = awq ? n / 8 : n;
  for (std::int64_t k = 0; k < w.k; k += kX15Block) {
    for (std::int64_t row = k + kAhead; row < std::min(k + kAhead + kX15Block, w.k); row += rows_ahead) {
      const std::uint32_t* next = w.words_at(row, column);
      for (std::int64_t i = 0; i < words; i += 16) __builtin_prefetch(next + i, 0, 3);
    }
    for (std::int64_t c = 0; c < n; c += kColumns) {
      const std::int64_t some = std::min(kColumns, n - c);
      if (k % w.scheme.group_cols == 0)
        place_scales<P>(w, k / w.scheme.group_cols, column + c, some, scales + c, zeros + c);
      if (awq) {
        tile.awq(w, k, column + c, some, zeros + c);
      } else if (w.bits() == 3) {
        tile.gptq3(w, k, column + c, some, zeros + c);
      } else {
        tile.gptq(w, k, column + c, some, zeros + c);
      }
      for (int r = 0; r < x.rows; ++r)
        tile.multiply(x, r * x.groups + k / kX15Block, scales + c, acc + r * kAcrossColumns + c);
    }
  }
  for (int r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < n; c += kColumns) {
      for (std::int64_t p = 0; p < kColumns; ++p) {
        if (const std::int64_t to = c + output_of<P>(awq, p); to < n) y[r * ld + to] = acc[r * kAcrossColumns + c + p];
      }
    }
  }
}

}  // namespace
}  // namespace tern::cpu

#include "backends/cpu/planes_along_inl.h"

namespace tern::cpu {
namespace {

template <typename P>
constexpr PlaneKernels make_planes() {
  return {&planes_int8<P>,           &planes_f8<P>,      &planes_levels4<P>, &planes_awq<P>, &planes_gptq<P>,
          &planes_multiply_along<P>, &planes_multiply<P>};
}

}  // namespace
}  // namespace tern::cpu
