// The loops of x15.h over the registers of x15_*.h: included after them, inside their target region.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "backends/cpu/x15.h"
#include "backends/cpu/x15_blocks_inl.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kX15Ahead = 4096;  // bytes of the weight

template <typename S>
void x15_quantise(const float* x, std::int64_t groups, X15Block* blocks, float* scales) {
  for (std::int64_t g = 0; g < groups; ++g, x += kX15Block) {
    const std::uint32_t bits = S::largest_bits(x);
    float most;
    std::memcpy(&most, &bits, 4);
    if (most >= kX15Smallest && most <= std::numeric_limits<float>::max()) {
      scales[g] = most / kX15Largest;
      S::round(x, kX15Largest / most, scales[g], blocks[g].q, blocks[g].sums);
      continue;
    }
    scales[g] = most < kX15Smallest ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    std::fill_n(blocks[g].q, kX15Block, std::int16_t{0});
    std::fill_n(blocks[g].sums, 8, 0.0F);
  }
}

// M rows of x from `row` on by C rows of the weight.
template <typename S, typename Block, int M, int C>
inline __attribute__((always_inline)) void x15_tile(const std::uint8_t* w, std::int64_t row_bytes, const X15Rows& x,
                                                    int row, float* y, std::int64_t ld) {
  typename S::F acc[C][M];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) acc[c][m] = S::zero();
  }
  const X15Block* blocks = x.blocks + row * x.groups;
  const float* scales = x.scales + row * x.groups;
  // What comes is fetched in the order in which it lies, some way ahead: the processor then reads on by itself.
  const std::uint8_t* ahead = w + (kX15Ahead / (C * row_bytes) + 1) * C * row_bytes;
  for (std::int64_t group = 0; group < x.groups; group += Block::kGroups, w += Block::kBytes) {
#pragma GCC unroll 16
    for (int line = 0; line < C * Block::kBytes; line += 64) __builtin_prefetch(ahead + line, 0, 3);
    ahead += C * Block::kBytes;
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const Block block(w + c * row_bytes);
#pragma GCC unroll 8
      for (int g = 0; g < Block::kGroups; ++g) {
        const Codes<S> codes = block.values(g);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
          const X15Block& part = blocks[m * x.groups + group + g];
          const float by = scales[m * x.groups + group + g];
          typename S::F& sum = acc[c][m];
          if constexpr (Block::kHalves) {
            sum = S::scaled(sum, S::dot(S::none(), codes.first, part.q), block.scale(g, 0) * by);
            sum = S::scaled(sum, S::dot(S::none(), codes.second, part.q + 16), block.scale(g, 1) * by);
            if constexpr (Block::kMinimum) sum = S::shifted(sum, part.sums, block.minimum(g, 0), block.minimum(g, 1));
          } else {
            const auto dots = S::dot(S::dot(S::none(), codes.first, part.q), codes.second, part.q + 16);
            sum = S::scaled(sum, dots, block.scale(g, 0) * by);
            if constexpr (Block::kMinimum) sum = S::shifted(sum, part.sums, block.minimum(g, 0));
          }
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) y[(row + m) * ld + c] = S::total(acc[c][m]);
  }
}

// One row alone takes four rows of the weight side by side, as each sum waits for the one before; two rows take two.
template <typename S, typename Block, int M>
void x15_columns(const std::uint8_t* w, std::int64_t row_bytes, std::int64_t columns, const X15Rows& x, int row,
                 float* y, std::int64_t ld) {
  constexpr int C = M == 1 ? 4 : M == 2 ? 2 : 1;
  std::int64_t c = 0;
  for (; columns - c >= C; c += C) x15_tile<S, Block, M, C>(w + c * row_bytes, row_bytes, x, row, y + c, ld);
  if constexpr (C > 1) {
    for (; c < columns; ++c) x15_tile<S, Block, M, 1>(w + c * row_bytes, row_bytes, x, row, y + c, ld);
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
      x15_columns<S, Block, M>(w + c * row_bytes, row_bytes, n, x, row, y + c, ld);
      row += M;
    };
    while (x.rows - row >= kMost) take.template operator()<kMost>();
    if (x.rows - row >= 4 && kMost > 4) take.template operator()<4>();
    if (x.rows - row >= 2) take.template operator()<2>();
    if (x.rows - row >= 1) take.template operator()<1>();
  }
}

template <typename S>
void x15_multiply(tern_packing packing, const std::uint8_t* w, std::int64_t row_bytes, std::int64_t columns,
                  const X15Rows& x, float* y, std::int64_t ld) {
  switch (packing) {
    case TERN_PACK_GGUF_Q4_0:
      return x15_rows<S, BlockQ4<S, 8>>(w, row_bytes, columns, x, y, ld);
    case TERN_PACK_GGUF_Q4_1:
      return x15_rows<S, BlockQ4<S, 0>>(w, row_bytes, columns, x, y, ld);
    case TERN_PACK_GGUF_Q5_0:
      return x15_rows<S, BlockQ5<S, 16>>(w, row_bytes, columns, x, y, ld);
    case TERN_PACK_GGUF_Q5_1:
      return x15_rows<S, BlockQ5<S, 0>>(w, row_bytes, columns, x, y, ld);
    case TERN_PACK_GGUF_Q4_K:
      return x15_rows<S, BlockQ45K<S, false>>(w, row_bytes, columns, x, y, ld);
    case TERN_PACK_GGUF_Q6_K:
      return x15_rows<S, BlockQ6K<S>>(w, row_bytes, columns, x, y, ld);
    default:
      return x15_rows<S, BlockQ8<S>>(w, row_bytes, columns, x, y, ld);
  }
}

template <typename S>
constexpr X15Kernels make_x15() {
  return {&x15_quantise<S>, &x15_multiply<S>};
}

}  // namespace
}  // namespace tern::cpu
