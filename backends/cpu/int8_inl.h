// The loops of int8.h over the registers of x15_*.h and a target's dot products of bytes (B): included after both,
// inside their target region.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/int8.h"
#include "backends/cpu/x15_inl.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kGroupBytes = 32 * kInt8Columns;  // of a panel

// 32 numbers of 16 bits as bytes, in their order: packing takes 64 bits of each half in turn.
inline __attribute__((always_inline)) __m256i as_bytes(__m256i first, __m256i second, bool has_sign) {
  const __m256i bytes = has_sign ? _mm256_packs_epi16(first, second) : _mm256_packus_epi16(first, second);
  return _mm256_permute4x64_epi64(bytes, 0xd8);
}

template <typename Numbers>
void int8_quantise(const float* x, std::int64_t groups, std::int8_t* q, float* scales, std::int32_t* sums) {
  for (std::int64_t g = 0; g < groups; ++g, x += kInt8Block, q += kInt8Block) {
    const std::uint32_t bits = Numbers::largest_bits(x);
    float most;
    std::memcpy(&most, &bits, 4);
    alignas(64) std::int16_t wide[kInt8Block] = {};
    sums[2 * g] = sums[2 * g + 1] = 0;
    if (most >= kInt8Smallest && most <= std::numeric_limits<float>::max()) {
      scales[g] = most / kInt8Largest;
      Numbers::round(x, kInt8Largest / most, wide, sums + 2 * g);
    } else {
      scales[g] = most < kInt8Smallest ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    }
    const auto* halves = reinterpret_cast<const __m256i*>(wide);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), as_bytes(halves[0], halves[1], true));
  }
}

// A column of a panel from a row of blocks that x15 has a loop for.
template <typename Numbers, typename Block>
void int8_pack_row(const Int8Source& from, const std::uint8_t* row, std::int64_t column, const Int8Panel& to) {
  constexpr std::int64_t kGroups = Block::kGroups;
  constexpr int kParts = Block::kHalves ? 2 : 1;
  using Whole = std::conditional_t<kGroups == 1, One<Numbers, Block>, Block>;
  const __m256i offset = _mm256_set1_epi16(static_cast<short>(from.offset));
  for (std::int64_t g = 0; g < from.groups; row += Block::kBytes) {
    const Whole block(row);
    for (int at = 0; at < kGroups; ++at, ++g) {
      const Codes<Numbers> codes = block.values(at);
      const __m256i bytes =
          as_bytes(_mm256_add_epi16(codes.first, offset), _mm256_add_epi16(codes.second, offset), from.offset == 0);
      alignas(32) std::uint32_t fours[8];
      _mm256_store_si256(reinterpret_cast<__m256i*>(fours), bytes);
      auto* words = reinterpret_cast<std::uint32_t*>(to.codes + g * kGroupBytes) + column;
      for (int i = 0; i < 8; ++i) words[i * kInt8Columns] = fours[i];
      for (int part = 0; part < kParts; ++part) {
        const std::int64_t place = (g * kParts + part) * kInt8Columns + column;
        if constexpr (kGroups == 1) {
          to.scales[place] = block.scale;
          if constexpr (Block::kMinimum) to.minima[place] = block.minimum;
        } else {
          to.scales[place] = block.scales[8 * part + at];
          if constexpr (Block::kMinimum) to.minima[place] = block.minima[8 * part + at];
        }
      }
    }
  }
}

template <typename Numbers>
void int8_pack(const Int8Source& from, const Int8Panel& to) {
  with_block<Numbers>(from.packing, [&]<typename Block>() {
    for (int i = 0; i < from.n; ++i) int8_pack_row<Numbers, Block>(from, from.rows + i * from.row_bytes, i, to);
  });
}

// Where a tile's rows go.
struct Int8Place {
  std::int64_t row;
  int column;  // of the panel, that a tile begins at
};

// M rows of x by B::kSides registers of a panel's columns.
template <typename B, int M, int Parts, bool Minima>
void int8_multiply_rows(const Int8Tile& tile, const Int8Place& place) {
  constexpr int S = B::kSides;
  const Int8Rows x = tile.x.from(place.row);
  typename B::F sums[M][S];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) sums[m][s] = B::zero();
  }
  const std::uint8_t* codes = tile.w.codes + 4 * place.column;
  for (std::int64_t part = 0; part < x.groups * Parts; ++part, codes += kGroupBytes / Parts) {
    typename B::Dots dots[M][S];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
      for (int s = 0; s < S; ++s) dots[m][s] = B::begin(x.starts[m * x.groups * Parts + part]);
    }
    const std::int8_t* q = x.q + part * (kInt8Block / Parts);
#pragma GCC unroll 8
    for (int i = 0; i < 8 / Parts; ++i) {
      typename B::I w[S];
#pragma GCC unroll 2
      for (int s = 0; s < S; ++s) w[s] = B::load(codes + 4 * (i * kInt8Columns + s * B::kLanes));
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        std::int32_t four;
        std::memcpy(&four, q + m * x.groups * kInt8Block + 4 * i, 4);
        const typename B::I spread = B::spread(four);
#pragma GCC unroll 2
        for (int s = 0; s < S; ++s) dots[m][s] = B::add(dots[m][s], w[s], spread);
      }
    }
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) {
      const std::int64_t at = part * kInt8Columns + place.column + s * B::kLanes;
      const typename B::F scale = B::load(tile.w.scales + at);
      const typename B::F minimum = Minima ? B::load(tile.w.minima + at) : scale;
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const typename B::F by = B::mul(scale, B::spread(x.scales[m * x.groups + part / Parts]));
        const typename B::F found = B::end(dots[m][s], x.starts[m * x.groups * Parts + part]);
        sums[m][s] = B::fma(found, by, sums[m][s]);
        if constexpr (Minima) sums[m][s] = B::fma(minimum, B::spread(x.sums[m * x.groups * Parts + part]), sums[m][s]);
      }
    }
  }
  for (int s = 0; s < S; ++s) {
    const int column = place.column + s * B::kLanes, n = std::clamp(tile.columns - column, 0, B::kLanes);
    for (int m = 0; m < M && n > 0; ++m) {
      float* y = tile.y + (place.row + m) * tile.ld + column;
      typename B::F sum = sums[m][s];
      if (tile.bias != nullptr) sum = B::plus(sum, B::load(tile.bias + column));
      if (tile.accumulate) sum = B::plus(sum, B::load_part(y, n));
      B::store_part(y, sum, n);
    }
  }
}

template <typename B, int Parts, bool Minima>
void int8_multiply_any(const Int8Tile& tile) {
  constexpr std::int64_t kMost = B::kRows;
  for (std::int64_t row = 0; row < tile.rows;) {
    const std::int64_t left = tile.rows - row;
    // The last rows in two equal parts, as few of them wait for what one after the other adds.
    const bool halves = left < 2 * kMost && left > kMost;
    const std::int64_t n = halves ? (left + 1) / 2 : std::min(left, kMost);
    for (int column = 0; column < tile.columns; column += B::kSides * B::kLanes) {
      const auto with = [&]<int M>() {
        if constexpr (M <= B::kRows) {
          if (n == M) int8_multiply_rows<B, M, Parts, Minima>(tile, {row, column});
        }
      };
      with.template operator()<1>();
      with.template operator()<2>();
      with.template operator()<3>();
      with.template operator()<4>();
      with.template operator()<5>();
      with.template operator()<6>();
    }
    row += n;
  }
}

template <typename B>
void int8_multiply(const Int8Tile& tile) {
  if (tile.x.parts == 2)
    return tile.minima ? int8_multiply_any<B, 2, true>(tile) : int8_multiply_any<B, 2, false>(tile);
  return tile.minima ? int8_multiply_any<B, 1, true>(tile) : int8_multiply_any<B, 1, false>(tile);
}

}  // namespace
}  // namespace tern::cpu
