// Matrix kernels for processors with matrix instructions over tiles of bf16 (Intel AMX: the Architecture Instruction
// Set Extensions reference, "TDPBF16PS"). Everything but products of bf16 is AVX-512's.
#include "backends/cpu/gemm_kernels.h"

#if defined(__x86_64__)
// gcc 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/target_region.h"

TERN_TARGET_BEGIN("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512bf16,fma,f16c,avx2,bmi,bmi2")
#include "backends/cpu/vec_x86_512.h"
//
#include "backends/cpu/gemm_plain_inl.h"

namespace tern::cpu {
namespace {

constexpr int kWords = kTilePairs;    // 32-bit elements of a tile's row: pairs of k on the left, columns on the right
constexpr int kPanel = 2 * kWords;    // nr
constexpr int kRows = 2 * kTileRows;  // that are multiplied at once

// gcc 12's intrinsics do not say what memory tiles are loaded from: what was stored before must be there.
TERN_INLINE void settle() { asm volatile("" ::: "memory"); }

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Tiles 0 to 3 are sums of two by two, 4 and 5 are rows of the left side, 6 and 7 columns of the right one.
void configure(std::int64_t rows) {
  const auto upper = static_cast<std::uint8_t>(std::min<std::int64_t>(rows, kTileRows));
  const auto lower = static_cast<std::uint8_t>(std::max<std::int64_t>(rows - upper, 1));  // no tile has no row
  TileConfig config;
  std::fill_n(config.row_bytes, 8, std::uint16_t{64});
  for (int tile : {0, 1, 4}) config.rows[tile] = upper;
  for (int tile : {2, 3, 5}) config.rows[tile] = lower;
  for (int tile : {6, 7}) config.rows[tile] = kWords;
  settle();
  _tile_loadconfig(&config);
}

// Up to 32 rows by 32 columns, and where each lies.
struct Block {
  const RowsTile& of;
  std::int64_t groups;  // of 16 pairs
  const std::uint32_t *a, *b;
  const std::uint32_t* b_tail;  // the pairs beyond, filled up with 0: [16][32]; null: none
};

template <bool Lower, bool Right>
inline __attribute__((always_inline)) void add_group(const std::uint32_t* a, const RowsOrder& order,
                                                     const std::uint32_t* b) {
  const auto a_bytes = static_cast<std::size_t>(order.row) * 4;
  _tile_loadd(6, b, kPanel * 4);
  _tile_loadd(4, a, a_bytes);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (Right) {
    _tile_loadd(7, b + kWords, kPanel * 4);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (Lower) {
    _tile_loadd(5, a + order.block, a_bytes);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (Right) _tile_dpbf16ps(3, 5, 7);
  }
}

// Asks for the lines of two rows of sums, to write them: rows of the output lie far apart, and a store of a tile would
// wait for all of its lines.
template <bool Lower, bool Right>
inline __attribute__((always_inline)) void fetch_sums(const float* c, std::int64_t ldc, std::int64_t group) {
  if (group >= (Lower ? kTileRows : kTileRows / 2)) return;
  for (std::int64_t row = 2 * group; row < 2 * group + 2; ++row) {
    __builtin_prefetch(c + row * ldc, 1, 3);
    if constexpr (Right) __builtin_prefetch(c + row * ldc + kWords, 1, 3);
  }
}

template <bool Lower, bool Right>
void multiply_block(const Block& block, const float* from, std::int64_t ld_from, float* c, std::int64_t ldc) {
  if (from == nullptr) {
    _tile_zero(0);
    if constexpr (Right) _tile_zero(1);
    if constexpr (Lower) _tile_zero(2);
    if constexpr (Lower && Right) _tile_zero(3);
  } else {
    const auto bytes = static_cast<std::size_t>(ld_from) * 4;
    _tile_loadd(0, from, bytes);
    if constexpr (Right) _tile_loadd(1, from + kWords, bytes);
    if constexpr (Lower) _tile_loadd(2, from + kTileRows * ld_from, bytes);
    if constexpr (Lower && Right) _tile_loadd(3, from + kTileRows * ld_from + kWords, bytes);
  }
  for (int part = 0; part < block.of.parts; ++part) {
    const std::uint32_t *a = block.a + part * block.of.a_part, *b = block.b;
    for (std::int64_t g = 0; g < block.groups; ++g, a += block.of.a_order.group, b += kWords * kPanel) {
      fetch_sums<Lower, Right>(c, ldc, g);
      add_group<Lower, Right>(a, block.of.a_order, b);
    }
    if (block.b_tail != nullptr) add_group<Lower, Right>(a, block.of.a_order, block.b_tail);
  }
  const auto bytes = static_cast<std::size_t>(ldc) * 4;
  _tile_stored(0, c, bytes);
  if constexpr (Right) _tile_stored(1, c + kWords, bytes);
  if constexpr (Lower) _tile_stored(2, c + kTileRows * ldc, bytes);
  if constexpr (Lower && Right) _tile_stored(3, c + kTileRows * ldc + kWords, bytes);
}

// `columns` of a panel; those of half a tile go by way of memory of their own.
void multiply_columns(const Block& block, std::int64_t rows, int columns, const float* from, std::int64_t ld_from,
                      float* c, std::int64_t ldc) {
  const bool right = columns > kWords;
  const auto multiply = rows > kTileRows ? (right ? &multiply_block<true, true> : &multiply_block<true, false>)
                                         : (right ? &multiply_block<false, true> : &multiply_block<false, false>);
  if (columns % kWords == 0) return multiply(block, from, ld_from, c, ldc);
  alignas(64) float edge[kRows * kPanel] = {};
  const auto bytes = static_cast<std::size_t>(columns) * sizeof(float);
  for (std::int64_t r = 0; from != nullptr && r < rows; ++r) std::memcpy(edge + r * kPanel, from + r * ld_from, bytes);
  settle();
  multiply(block, edge, kPanel, edge, kPanel);
  settle();
  for (std::int64_t r = 0; r < rows; ++r) std::memcpy(c + r * ldc, edge + r * kPanel, bytes);
}

void multiply_rows(const RowsTile& t) {
  const std::int64_t groups = t.k / kWords, tail = t.k % kWords;
  alignas(64) std::uint32_t b_tail[kWords * kPanel];  // read where k has a tail; that of a is filled up where it lies
  if (tail > 0) std::fill_n(b_tail, kWords * kPanel, 0U);
  std::int64_t configured = 0;
  for (int column = 0, panel = 0; column < t.n; column += kPanel, ++panel) {
    const int columns = std::min(kPanel, t.n - column);
    const std::uint32_t* b = t.b + panel * t.b_panel_stride;
    std::memcpy(b_tail, b + groups * kWords * kPanel, static_cast<std::size_t>(tail * kPanel) * 4);
    for (std::int64_t row = 0; row < t.m; row += kRows) {
      const std::int64_t rows = std::min<std::int64_t>(kRows, t.m - row);
      if (rows != configured) configure(configured = rows);
      settle();
      const Block block{t, groups, t.a + t.a_order.at(row, 0), b, tail > 0 ? b_tail : nullptr};
      const float* from = t.from == nullptr ? nullptr : t.from + row * t.ld_from + column;
      multiply_columns(block, rows, columns, from, t.ld_from, t.c + row * t.ldc + column, t.ldc);
    }
  }
  _tile_release();
}

// What rounding to these halves left of x; of what is not finite, nothing.
TERN_INLINE __m512 left_of(__m512 x, __m256i halves) {
  const __m512 r = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16)));
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(r, r, _CMP_ORD_Q), r);
}

// 32 floats, of which `count` are there, to bf16 and, where asked, what that left.
TERN_INLINE void split_line(const float* from, int count, std::uint32_t* to, std::uint32_t* rest) {
  const __m512 low = Vec512::load_part(from, std::min(count, kWords));
  const __m512 high = Vec512::load_part(from + std::min(count, kWords), std::max(count - kWords, 0));
  const auto rounded = (__m512i)_mm512_cvtne2ps_pbh(high, low);
  _mm512_storeu_si512(to, rounded);
  if (rest == nullptr) return;
  const __m512 low_left = left_of(low, _mm512_castsi512_si256(rounded));
  const __m512 high_left = left_of(high, _mm512_extracti64x4_epi64(rounded, 1));
  _mm512_storeu_si512(rest, (__m512i)_mm512_cvtne2ps_pbh(high_left, low_left));
}

void split_rows(const SplitRows& s) {
  const RowsOrder order = rows_in_tiles(s.pairs);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    std::uint32_t* to = s.to + order.at(r, 0);
    for (std::int64_t k = 0; k < s.k; k += 2 * kWords, to += order.group) {
      split_line(s.from + r * s.ld + k, static_cast<int>(std::min<std::int64_t>(2 * kWords, s.k - k)), to,
                 s.parts > 1 ? to + s.part : nullptr);
    }
  }
}

void configure_turned(std::int64_t rows, int columns) {
  const int left = std::min(columns, kWords), right = std::max(columns - left, 1);
  const auto bytes = [](int words) { return static_cast<std::uint16_t>(4 * words); };
  TileConfig config;
  for (int tile : {0, 1, 4}) config.rows[tile] = static_cast<std::uint8_t>(rows);
  for (int tile : {6, 7}) config.rows[tile] = kWords;
  config.row_bytes[4] = bytes(kWords);
  for (int tile : {0, 6}) config.row_bytes[tile] = bytes(left);
  for (int tile : {1, 7}) config.row_bytes[tile] = bytes(right);
  settle();
  _tile_loadconfig(&config);
}

// Tile 4 is rows of the right side; 6 and 7 are 16 rows of the left one each, [k][16].
template <bool Right>
void multiply_turned_groups(const RowsTile& t, const std::uint32_t* a_tail, std::uint32_t (*b_tail)[kWords * kWords]) {
  const std::uint32_t *a = t.a, *b = t.b;
  const auto a_bytes = static_cast<std::size_t>(t.a_order.row) * 4;
  for (std::int64_t g = 0; g < t.k / kWords; ++g, a += t.a_order.group, b += kWords * kWords) {
    _tile_loadd(4, a, a_bytes);
    _tile_loadd(6, b, kWords * 4);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Right) {
      _tile_loadd(7, b + t.b_panel_stride, kWords * 4);
      _tile_dpbf16ps(1, 4, 7);
    }
  }
  const std::int64_t tail = t.k % kWords;
  if (tail == 0) return;
  const auto bytes = static_cast<std::size_t>(tail * kWords) * 4;
  std::memcpy(b_tail[0], b, bytes);
  settle();
  _tile_loadd(4, a_tail, kWords * 4);
  _tile_loadd(6, b_tail[0], kWords * 4);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (Right) {
    std::memcpy(b_tail[1], b + t.b_panel_stride, bytes);
    settle();
    _tile_loadd(7, b_tail[1], kWords * 4);
    _tile_dpbf16ps(1, 4, 7);
  }
}

// to[i * ld_to + j] = from[j * ld_from + i] for i < rows, j < columns, at most 16 of each.
void turn(const float* from, std::int64_t ld_from, std::int64_t rows, std::int64_t columns, float* to,
          std::int64_t ld_to) {
  alignas(64) float square[kWords * kWords] = {};
  for (std::int64_t j = 0; j < columns; ++j) {
    Vec512::store(square + j * kWords, Vec512::load_part(from + j * ld_from, static_cast<int>(rows)));
  }
  alignas(64) std::uint32_t turned[kWords * kWords];
  Vec512::transpose(reinterpret_cast<const std::uint32_t*>(square), kWords, kWords, turned, kWords);
  for (std::int64_t i = 0; i < rows; ++i) {
    Vec512::store_part(to + i * ld_to, Vec512::load(reinterpret_cast<const float*>(turned) + i * kWords),
                       static_cast<int>(columns));
  }
}

void multiply_turned(const RowsTile& t) {
  alignas(64) std::uint32_t a_tail[kWords * kWords], b_tail[2][kWords * kWords];  // read where k has a tail
  alignas(64) float sums[2][kWords * kWords];
  const bool right = t.n > kWords;
  const std::int64_t tail = t.k % kWords;
  if (tail > 0) {
    std::fill_n(a_tail, kWords * kWords, 0U);
    for (auto& half : b_tail) std::fill_n(half, kWords * kWords, 0U);
  }
  for (std::int64_t r = 0; tail > 0 && r < t.m; ++r) {
    std::memcpy(a_tail + r * kWords, t.a + t.a_order.at(r, t.k - tail), static_cast<std::size_t>(tail) * 4);
  }
  const std::int64_t columns[2] = {std::min(t.n, kWords), std::max(t.n - kWords, 0)};
  configure_turned(t.m, t.n);
  if (t.from == nullptr) {
    _tile_zero(0);
    if (right) _tile_zero(1);
  } else {
    for (int i = 0; i < (right ? 2 : 1); ++i) {
      turn(t.from + i * kWords * t.ld_from, t.ld_from, t.m, columns[i], sums[i], kWords);
    }
    settle();
    _tile_loadd(0, sums[0], kWords * 4);
    if (right) _tile_loadd(1, sums[1], kWords * 4);
  }
  if (right) {
    multiply_turned_groups<true>(t, a_tail, b_tail);
  } else {
    multiply_turned_groups<false>(t, a_tail, b_tail);
  }
  _tile_stored(0, sums[0], kWords * 4);
  if (right) _tile_stored(1, sums[1], kWords * 4);
  _tile_release();
  settle();
  for (int i = 0; i < (right ? 2 : 1); ++i) {
    turn(sums[i], kWords, columns[i], t.m, t.c + i * kWords * t.ldc, t.ldc);
  }
}

// The sums of tiles by vectors.
struct DotTiles {
  using F = __m512;
  using B = __m512i;
  struct Sum {
    F total, first, second;
  };
  static B broadcast(const std::uint32_t* p) { return _mm512_set1_epi32(static_cast<int>(*p)); }
  static B of(F pairs) { return _mm512_castps_si512(pairs); }
  static Sum begin(F from) { return {from, _mm512_setzero_ps(), _mm512_setzero_ps()}; }
  static Sum accumulate(const Sum& sum, B a, B b) {
    return {sum.total, _mm512_fmadd_ps(low(a), low(b), sum.first), _mm512_fmadd_ps(high(a), high(b), sum.second)};
  }
  // After 16 pairs.
  static void fold(Sum& sum) { sum = begin(_mm512_add_ps(sum.total, _mm512_add_ps(sum.first, sum.second))); }
  static F total(const Sum& sum) { return sum.total; }

 private:
  static F low(B pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
  static F high(B pairs) {
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  }
};
static_assert(kLineWords == kWords && Vec512::width == kWords, "sums are folded after a line of k");

void multiply_plain(const PlainTile& tile) {
  constexpr unsigned kSubnormalsAreZero = 0x8040;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kSubnormalsAreZero);
  multiply_plain_any<Vec512, DotTiles>(tile);
  _mm_setcsr(before);
}

}  // namespace
}  // namespace tern::cpu
TERN_TARGET_END

namespace tern::cpu {

// For the base instruction set: devices are described where they can't run.
const GemmKernels* gemm_kernels_amx_bf16() {
  static const GemmKernels kernels = [] {
    GemmKernels made = *gemm_kernels_avx512_bf16();
    made.multiply_rows_bf16 = &multiply_rows;
    made.split_rows = &split_rows;
    made.multiply_turned_bf16 = &multiply_turned;
    made.multiply_plain_bf16 = &multiply_plain;
    return made;
  }();
  return &kernels;
}

}  // namespace tern::cpu
#else
namespace tern::cpu {
const GemmKernels* gemm_kernels_amx_bf16() { return nullptr; }
}  // namespace tern::cpu
#endif
