// The loops of x15.h over the registers of x15_*.h: included after them, inside their target region.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "backends/cpu/x15.h"
#include "backends/cpu/x15_blocks_inl.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kX15Ahead = 8192;  // bytes of the weight

template <typename S>
void x15_quantise(const float* x, std::int64_t first, std::int64_t groups, const X15Rows& rows) {
  for (std::int64_t g = first; g < first + groups; ++g, x += kX15Block) {
    const std::uint32_t bits = S::largest_bits(x);
    float most;
    std::memcpy(&most, &bits, 4);
    std::int32_t sums[2] = {0, 0};
    if (most >= kX15Smallest && most <= std::numeric_limits<float>::max()) {
      rows.scales[g] = most / kX15Largest;
      S::round(x, kX15Largest / most, rows.blocks[g].q, sums);
    } else {
      rows.scales[g] = most < kX15Smallest ? 0.0F : std::numeric_limits<float>::quiet_NaN();
      std::fill_n(rows.blocks[g].q, kX15Block, std::int16_t{0});
    }
    for (int half = 0; half < 2; ++half) rows.halves[half][g] = rows.scales[g] * static_cast<float>(sums[half]);
    rows.sums[g] = rows.scales[g] * static_cast<float>(sums[0] + sums[1]);
  }
}

// M rows of x by one block of one group.
template <typename S, typename Block, int M>
inline __attribute__((always_inline)) void x15_one_group(const Block& block, const X15Rows& x, std::int64_t group,
                                                         typename S::F (&acc)[M]) {
  const Codes<S> codes = block.values(0);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    const std::int64_t at = m * x.groups + group;
    const std::int16_t* q = x.blocks[at].q;
    const auto dots = S::dot(S::dot(S::none(), codes.first, q), codes.second, q + 16);
    acc[m] = S::scaled(acc[m], dots, block.scale * x.scales[at]);
    if constexpr (Block::kMinimum) acc[m] = S::added(acc[m], block.minimum, x.sums + at);
  }
}

// The same by blocks of eight of C rows of the weight, taken in turn: each sum waits for the one before.
template <typename S, typename Block, int M, int C>
inline __attribute__((always_inline)) void x15_eight_groups(const Block (&blocks)[C], const X15Rows& x,
                                                            std::int64_t group, typename S::F (&acc)[C][M]) {
  constexpr int kScales = Block::kHalves ? 2 : 1;
  float by[C][M][kScales][8];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const std::int64_t at = m * x.groups + group;
#pragma GCC unroll 2
      for (int half = 0; half < kScales; ++half) {
        S::multiply_eight(blocks[c].scales + 8 * half, x.scales + at, by[c][m][half]);
        if constexpr (Block::kMinimum) {
          const float* sums = Block::kHalves ? x.halves[half] : x.sums;
          acc[c][m] = S::add_eight(acc[c][m], blocks[c].minima + 8 * half, sums + at);
        }
      }
    }
  }
  if constexpr (M == 1) asm volatile("" : "+m"(by));  // one row reads its scales from memory, which needs no shuffles
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const Codes<S> codes = blocks[c].values(g);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const std::int16_t* q = x.blocks[m * x.groups + group + g].q;
        if constexpr (Block::kHalves) {
          acc[c][m] = S::scaled(acc[c][m], S::dot(S::none(), codes.first, q), by[c][m][0][g]);
          acc[c][m] = S::scaled(acc[c][m], S::dot(S::none(), codes.second, q + 16), by[c][m][1][g]);
        } else {
          acc[c][m] =
              S::scaled(acc[c][m], S::dot(S::dot(S::none(), codes.first, q), codes.second, q + 16), by[c][m][0][g]);
        }
      }
    }
  }
}

// fn(blocks) of C rows.
template <typename Block, typename Fn, std::size_t... C>
inline __attribute__((always_inline)) void with_blocks(const std::uint8_t* w, std::int64_t row_bytes, const Fn& fn,
                                                       std::index_sequence<C...>) {
  const Block blocks[] = {Block(w + static_cast<std::int64_t>(C) * row_bytes)...};
  fn(blocks);
}

// M rows of x by C rows of the weight.
template <typename S, typename Block, int M, int C>
inline __attribute__((always_inline)) void x15_tile(const std::uint8_t* w, std::int64_t row_bytes, const X15Rows& x,
                                                    float* y, std::int64_t ld) {
  typename S::F acc[C][M];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) acc[c][m] = S::zero();
  }
  // What comes is fetched in the order in which it lies, some way ahead: the processor then reads on by itself.
  const std::uint8_t* ahead = w + (kX15Ahead / (C * row_bytes) + 1) * C * row_bytes;
  std::int64_t group = 0;
  const auto by_eight = [&]<typename Eight>() {
    for (; x.groups - group >= 8; group += 8, w += Eight::kBytes) {
#pragma GCC unroll 16
      for (int line = 0; line < C * Eight::kBytes; line += 64) __builtin_prefetch(ahead + line, 0, 3);
      ahead += C * Eight::kBytes;
      with_blocks<Eight>(
          w, row_bytes, [&](const Eight(&blocks)[C]) { x15_eight_groups<S, Eight, M, C>(blocks, x, group, acc); },
          std::make_index_sequence<C>());
    }
  };
  if constexpr (Block::kGroups == 8) {
    by_eight.template operator()<Block>();
  } else {
    by_eight.template operator()<EightOf<S, Block>>();
    for (; group < x.groups; ++group, w += Block::kBytes) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        x15_one_group<S, One<S, Block>, M>(One<S, Block>(w + c * row_bytes), x, group, acc[c]);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) y[m * ld + c] = S::total(acc[c][m]);
  }
}

// One row alone takes four rows of the weight side by side, as each sum waits for the one before, or two where rows are
// so long that four are too many streams of memory; two rows take two.
template <typename S, typename Block, int M>
void x15_columns(const std::uint8_t* w, std::int64_t row_bytes, std::int64_t columns, const X15Rows& x, float* y,
                 std::int64_t ld) {
  constexpr std::int64_t kEight = 8 / Block::kGroups * Block::kBytes;
  constexpr int C = M == 1 ? (kEight > 192 ? 2 : 4) : M == 2 ? 2 : 1;
  std::int64_t c = 0;
  for (; columns - c >= C; c += C) x15_tile<S, Block, M, C>(w + c * row_bytes, row_bytes, x, y + c, ld);
  if constexpr (C > 1) {
    for (; c < columns; ++c) x15_tile<S, Block, M, 1>(w + c * row_bytes, row_bytes, x, y + c, ld);
  }
}

template <typename S, typename Block>
void x15_rows(const std::uint8_t* w, std::int64_t row_bytes, std::int64_t columns, const X15Rows& x, float* y,
              std::int64_t ld) {
  constexpr int kMost = S::kMostRows;
  // So many rows of the weight that they stay in the first cache for the next rows of x.
  const std::int64_t at_once = x.rows <= kMost ? columns : std::max<std::int64_t>(4, 8192 / row_bytes / 4 * 4);
  for (std::int64_t c = 0; c < columns; c += at_once) {
    const std::int64_t n = std::min(at_once, columns - c);
    int row = 0;
    const auto take = [&]<int M>() {
      x15_columns<S, Block, M>(w + c * row_bytes, row_bytes, n, x.from(row, M), y + row * ld + c, ld);
      row += M;
    };
    while (x.rows - row >= kMost) take.template operator()<kMost>();
    if (x.rows - row >= 4 && kMost > 4) take.template operator()<4>();
    if (x.rows - row >= 2) take.template operator()<2>();
    if (x.rows - row >= 1) take.template operator()<1>();
  }
}

// fn.template operator()<Block>() for the packing's.
template <typename S, typename Fn>
void with_block(tern_packing packing, const Fn& fn) {
  switch (packing) {
    case TERN_PACK_GGUF_Q4_0:
      return fn.template operator()<BlockQ4<S, 8>>();
    case TERN_PACK_GGUF_Q4_1:
      return fn.template operator()<BlockQ4<S, 0>>();
    case TERN_PACK_GGUF_Q5_0:
      return fn.template operator()<BlockQ5<S, 16>>();
    case TERN_PACK_GGUF_Q5_1:
      return fn.template operator()<BlockQ5<S, 0>>();
    case TERN_PACK_GGUF_Q2_K:
      return fn.template operator()<BlockQ2K<S>>();
    case TERN_PACK_GGUF_Q3_K:
      return fn.template operator()<BlockQ3K<S>>();
    case TERN_PACK_GGUF_Q4_K:
      return fn.template operator()<BlockQ45K<S, false>>();
    case TERN_PACK_GGUF_Q5_K:
      return fn.template operator()<BlockQ45K<S, true>>();
    case TERN_PACK_GGUF_Q6_K:
      return fn.template operator()<BlockQ6K<S>>();
    case TERN_PACK_GGUF_IQ4_NL:
      return fn.template operator()<BlockIq4Nl<S>>();
    case TERN_PACK_GGUF_IQ4_XS:
      return fn.template operator()<BlockIq4Xs<S>>();
    case TERN_PACK_GGUF_MXFP4:
      return fn.template operator()<BlockMxfp4<S>>();
    case TERN_PACK_ROW_INT8:
      return fn.template operator()<BlockInt8<S>>();
    default:
      return fn.template operator()<BlockQ8<S>>();
  }
}

template <typename S>
void x15_multiply(tern_packing packing, const std::uint8_t* w, std::int64_t row_bytes, std::int64_t columns,
                  const X15Rows& x, float* y, std::int64_t ld) {
  with_block<S>(packing, [&]<typename Block>() { x15_rows<S, Block>(w, row_bytes, columns, x, y, ld); });
}

template <typename S>
void x15_expand(tern_packing packing, const std::uint8_t* row, std::int64_t first, std::int64_t groups, float* dst) {
  with_block<S>(packing, [&]<typename Block>() {
    constexpr std::int64_t kGroups = Block::kGroups;
    using Whole = std::conditional_t<kGroups == 1, One<S, Block>, Block>;
    for (std::int64_t g = first; g < first + groups;) {
      const Whole block(row + g / kGroups * Block::kBytes);
      const std::int64_t end = std::min(first + groups, (g / kGroups + 1) * kGroups);
      for (; g < end; ++g, dst += kX15Block) {
        const auto at = static_cast<int>(g % kGroups);
        const Codes<S> codes = block.values(at);
        for (int half = 0; half < 2; ++half) {
          float scale, minimum = 0.0F;
          if constexpr (kGroups == 1) {
            scale = block.scale;
            if constexpr (Block::kMinimum) minimum = block.minimum;
          } else {
            scale = block.scales[(Block::kHalves ? 8 * half : 0) + at];
            if constexpr (Block::kMinimum) minimum = block.minima[(Block::kHalves ? 8 * half : 0) + at];
          }
          S::expand(half == 0 ? codes.first : codes.second, scale, minimum, dst + 16 * half);
        }
      }
    }
  });
}

template <typename S>
constexpr X15Kernels make_x15(X15Sideways few = {}, X15Sideways many = {}) {
  return {&x15_quantise<S>, &x15_multiply<S>, &x15_expand<S>, few, many};
}

}  // namespace
}  // namespace tern::cpu
