// Rows of x side by side in registers (X15Sideways of x15.h), over the lanes of x15_*.h: included after x15_inl.h,
// inside a target region.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cpu/x15_inl.h"

namespace tern::cpu {
namespace {

// Pairs of q of all rows, groups [first, first + groups), as X15Lanes has them; rows past the last are 0.
template <typename L>
void x15_interleave(const X15Rows& x, std::int64_t first, std::int64_t groups, const X15Lanes& to) {
  constexpr int kLanes = L::kLanes;
  for (std::int64_t g = first; g < first + groups; ++g) {
    for (int begin = 0; begin < to.padded; begin += kLanes) {
      const std::int64_t at = begin / kLanes * x.groups + g;
      L::turn(&x.blocks[begin * x.groups + g], x.groups, std::min(kLanes, x.rows - begin), to.pairs + at * 16 * kLanes);
    }
    for (int m = 0; m < to.padded; ++m) {
      const bool is_row = m < x.rows;
      const std::int64_t from = m * x.groups + g, at = (m / kLanes * x.groups + g) * kLanes + m % kLanes;
      to.scales[at] = is_row ? x.scales[from] : 0.0F;
      to.sums[at] = is_row ? x.sums[from] : 0.0F;
      for (int half = 0; half < 2; ++half) to.halves[half][at] = is_row ? x.halves[half][from] : 0.0F;
    }
  }
}

// What eight groups (or the last few) of C rows of the weight become for all rows of x.
template <int C>
struct X15Expanded {
  alignas(64) std::int16_t codes[8][C][kX15Block];
  float scales[C][16], minima[C][16];
};

template <typename S, typename Block, int C>
inline __attribute__((always_inline)) void x15_expand_codes(const Block& block, int c, int g, int groups,
                                                            X15Expanded<C>& to) {
  for (int i = 0; i < groups; ++i) {
    const Codes<S> codes = block.values(i);
    S::store(codes.first, to.codes[g + i][c]);
    S::store(codes.second, to.codes[g + i][c] + 16);
  }
}

// Groups [group, group + groups) of C rows of the weight by one register of rows of x.
template <typename L, typename Block, int C>
inline __attribute__((always_inline)) void x15_lanes_groups(const X15Expanded<C>& w, const X15Lanes& x, std::int64_t at,
                                                            std::int64_t groups, float* acc) {
  constexpr int kLanes = L::kLanes, kScales = Block::kHalves ? 2 : 1;
  typename L::F total[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) total[c] = L::load(acc + c * kLanes);
  for (std::int64_t g = 0; g < groups; ++g, ++at) {
#pragma GCC unroll 2
    for (int half = 0; half < kScales; ++half) {
      constexpr int kPairs = 16 / kScales;
      typename L::I dots[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) dots[c] = L::none();
#pragma GCC unroll 16
      for (int i = half * kPairs; i < (half + 1) * kPairs; ++i) {
        const typename L::I pairs = L::load(x.pairs + (at * 16 + i) * kLanes);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) dots[c] = L::dot(dots[c], pairs, w.codes[g][c] + 2 * i);
      }
      const typename L::F scale = L::load(x.scales + at * kLanes);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) total[c] = L::scaled(total[c], dots[c], scale, w.scales[c] + 8 * half + g);
      if constexpr (Block::kMinimum) {
        const typename L::F sums = L::load((Block::kHalves ? x.halves[half] : x.sums) + at * kLanes);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) total[c] = L::added(total[c], sums, w.minima[c] + 8 * half + g);
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) L::store(acc + c * kLanes, total[c]);
}

template <typename S, typename L, typename Block, int C>
void x15_lanes_columns(const std::uint8_t* w, std::int64_t row_bytes, const X15Lanes& x, float* y, std::int64_t ld) {
  constexpr int kLanes = L::kLanes;
  alignas(64) float acc[kX15MostLanes * C] = {};
  X15Expanded<C> expanded;
  const auto multiply = [&](std::int64_t group, std::int64_t groups) {
    for (int m = 0; m < x.padded; m += kLanes) {
      x15_lanes_groups<L, Block, C>(expanded, x, m / kLanes * x.groups + group, groups, acc + m * C);
    }
  };
  const std::uint8_t* ahead = w + (kX15Ahead / (C * row_bytes) + 1) * C * row_bytes;
  std::int64_t group = 0;
  const auto by_eight = [&]<typename Eight>() {
    for (; x.groups - group >= 8; group += 8, w += Eight::kBytes) {
      for (int line = 0; line < C * Eight::kBytes; line += 64) __builtin_prefetch(ahead + line, 0, 3);
      ahead += C * Eight::kBytes;
      for (int c = 0; c < C; ++c) {
        const Eight block(w + c * row_bytes);
        x15_expand_codes<S>(block, c, 0, 8, expanded);
        std::memcpy(expanded.scales[c], block.scales, sizeof block.scales);
        if constexpr (Block::kMinimum) std::memcpy(expanded.minima[c], block.minima, sizeof block.minima);
      }
      multiply(group, 8);
    }
  };
  if constexpr (Block::kGroups == 8) {
    by_eight.template operator()<Block>();
  } else {
    by_eight.template operator()<EightOf<S, Block>>();
    const auto rest = static_cast<int>(x.groups - group);
    for (int c = 0; c < C; ++c) {
      for (int g = 0; g < rest; ++g) {
        const One<S, Block> block(w + c * row_bytes + g * Block::kBytes);
        x15_expand_codes<S>(block, c, g, 1, expanded);
        expanded.scales[c][g] = block.scale;
        if constexpr (Block::kMinimum) expanded.minima[c][g] = block.minimum;
      }
    }
    if (rest > 0) multiply(group, rest);
  }
  for (int m = 0; m < x.rows; ++m) {
    for (int c = 0; c < C; ++c) y[m * ld + c] = acc[m / kLanes * kLanes * C + c * kLanes + m % kLanes];
  }
}

template <typename S, typename L>
void x15_multiply_lanes(tern_packing packing, const std::uint8_t* w, std::int64_t row_bytes, std::int64_t columns,
                        const X15Lanes& x, float* y, std::int64_t ld) {
  with_block<S>(packing, [&]<typename Block>() {
    constexpr int C = L::kColumns;
    std::int64_t c = 0;
    for (; columns - c >= C; c += C) x15_lanes_columns<S, L, Block, C>(w + c * row_bytes, row_bytes, x, y + c, ld);
    for (; c < columns; ++c) x15_lanes_columns<S, L, Block, 1>(w + c * row_bytes, row_bytes, x, y + c, ld);
  });
}

template <typename L, typename S>
constexpr X15Sideways make_x15_sideways() {
  return {L::kLanes, &x15_interleave<L>, &x15_multiply_lanes<S, L>};
}

}  // namespace
}  // namespace tern::cpu
