// Products of 8-bit activations for AVX-512 with VNNI.
#include "backends/cpu/int8.h"
#include "backends/cpu/x15.h"

#if defined(__x86_64__)
// gcc 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/target_region.h"

TERN_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512vnni,fma,f16c,avx2,bmi,bmi2")
#include "backends/cpu/vec_x86_512.h"
//
#include "backends/cpu/x15_x86_256.h"
//
#include "backends/cpu/x15_inl.h"

namespace tern::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kSides = kInt8Columns / kLanes;
constexpr int kMostRows = 6;                             // of x, whose sums are in registers
constexpr std::int64_t kGroupBytes = 32 * kInt8Columns;  // of a panel

void quantise(const float* x, std::int64_t groups, std::int8_t* q, float* scales, std::int32_t* sums) {
  for (std::int64_t g = 0; g < groups; ++g, x += kInt8Block, q += kInt8Block) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + kLanes);
    const __m512i bits = _mm512_max_epu32(_mm512_castps_si512(_mm512_abs_ps(a)), _mm512_castps_si512(_mm512_abs_ps(b)));
    const std::uint32_t most_bits = _mm512_reduce_max_epu32(bits);
    float most;
    std::memcpy(&most, &most_bits, 4);
    auto* to = reinterpret_cast<__m128i*>(q);
    if (most >= kInt8Smallest && most <= std::numeric_limits<float>::max()) {
      const __m512 by = _mm512_set1_ps(kInt8Largest / most);
      const __m512i low = _mm512_cvtps_epi32(_mm512_mul_ps(a, by)), high = _mm512_cvtps_epi32(_mm512_mul_ps(b, by));
      const __m128i first = _mm512_cvtepi32_epi8(low), second = _mm512_cvtepi32_epi8(high);
      _mm_storeu_si128(to, first);
      _mm_storeu_si128(to + 1, second);
      scales[g] = most / kInt8Largest;
      // Of bytes, 128 more than they are, in eights.
      const __m256i bytes = _mm256_xor_si256(_mm256_set_m128i(second, first), _mm256_set1_epi8(-128));
      const __m256i eights = _mm256_sad_epu8(bytes, _mm256_setzero_si256());
      const __m256i halves = _mm256_add_epi64(eights, _mm256_shuffle_epi32(eights, 0x4e));
      sums[2 * g] = _mm256_extract_epi32(halves, 0) - 16 * 128;
      sums[2 * g + 1] = _mm256_extract_epi32(halves, 4) - 16 * 128;
    } else {
      scales[g] = most < kInt8Smallest ? 0.0F : std::numeric_limits<float>::quiet_NaN();
      sums[2 * g] = sums[2 * g + 1] = 0;
      _mm_storeu_si128(to, _mm_setzero_si128());
      _mm_storeu_si128(to + 1, _mm_setzero_si128());
    }
  }
}

// The codes of two groups, which are `apart` bytes from each other, as bytes without a sign.
template <tern_packing Packing>
inline __attribute__((always_inline)) __m512i two_groups(const std::uint8_t* codes, std::int64_t apart) {
  if constexpr (Packing == TERN_PACK_GGUF_Q8_0) {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + apart));
    return _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1), _mm512_set1_epi8(-128));
  }
  const __m256i first = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  const __m256i second = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + apart)));
  const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
  const __m512i by = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
  return _mm512_and_si512(_mm512_srlv_epi64(both, by), _mm512_set1_epi8(15));
}

// 16 columns of a panel whose blocks are of one group, of which n have a row.
template <tern_packing Packing>
void pack_16_rows(const Int8Source& from, const std::uint8_t* rows, int n, std::int64_t column, const Int8Panel& to) {
  constexpr bool has_minimum = Packing == TERN_PACK_GGUF_Q4_1;
  constexpr std::int64_t codes = has_minimum ? 4 : 2, bytes = codes + (Packing == TERN_PACK_GGUF_Q8_0 ? 32 : 16);
  // The scale, and above it the minimum or codes. Words that are copied one by one are there before a gather is.
  alignas(64) std::uint32_t heads[2][kLanes];
  const std::int64_t ahead = kInt8Columns * from.row_bytes;
  for (std::int64_t group = 0; group < from.groups; group += 2) {
    const std::int64_t next = group + 1 < from.groups ? bytes : 0;
    __m512i weights[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const std::uint8_t* at = rows + (i < n ? i * from.row_bytes : 0) + group * bytes;
      __builtin_prefetch(at + ahead, 0, 2);
      std::memcpy(&heads[0][i], at, sizeof(std::uint32_t));
      std::memcpy(&heads[1][i], at + next, sizeof(std::uint32_t));
      weights[i] = two_groups<Packing>(at + codes, next);
    }
    auto* words = reinterpret_cast<std::uint32_t*>(to.codes + group * kGroupBytes) + column;
    Vec512::transpose_registers(weights, words, kInt8Columns);
    for (int g = 0; g < 2; ++g) {
      const __m512i both = _mm512_load_si512(heads[g]);
      const std::int64_t place = (group + g) * kInt8Columns + column;
      _mm512_storeu_ps(to.scales + place, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(both)));
      if constexpr (has_minimum) {
        _mm512_storeu_ps(to.minima + place, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(both, 16))));
      }
    }
  }
}

struct DotPairs {
  TERN_INLINE __m256i add(__m256i sum, __m256i a, __m256i b) { return _mm256_dpwssd_epi32(sum, a, b); }
};
using Numbers = Whole256<DotPairs>;

// A column of a panel from a row of blocks that x15 has a loop for.
template <typename Block>
void pack_row(const Int8Source& from, const std::uint8_t* row, std::int64_t column, const Int8Panel& to) {
  constexpr std::int64_t kGroups = Block::kGroups;
  constexpr int kParts = Block::kHalves ? 2 : 1;
  using Whole = std::conditional_t<kGroups == 1, One<Numbers, Block>, Block>;
  for (std::int64_t g = 0; g < from.groups; row += Block::kBytes) {
    const Whole block(row);
    for (int at = 0; at < kGroups; ++at, ++g) {
      const Codes<Numbers> codes = block.values(at);
      // Bytes in the order of both halves: packing takes 64 bits of each in turn.
      const __m256i bytes = _mm256_permute4x64_epi64(
          _mm256_packus_epi16(_mm256_add_epi16(codes.first, _mm256_set1_epi16(static_cast<short>(from.offset))),
                              _mm256_add_epi16(codes.second, _mm256_set1_epi16(static_cast<short>(from.offset)))),
          0xd8);
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

void pack(const Int8Source& from, const Int8Panel& to) {
  if (from.packing != TERN_PACK_GGUF_Q4_1 && from.packing != TERN_PACK_GGUF_Q4_0 &&
      from.packing != TERN_PACK_GGUF_Q8_0) {
    return with_block<Numbers>(from.packing, [&]<typename Block>() {
      for (int i = 0; i < from.n; ++i) pack_row<Block>(from, from.rows + i * from.row_bytes, i, to);
    });
  }
  const auto side = from.packing == TERN_PACK_GGUF_Q4_1   ? &pack_16_rows<TERN_PACK_GGUF_Q4_1>
                    : from.packing == TERN_PACK_GGUF_Q4_0 ? &pack_16_rows<TERN_PACK_GGUF_Q4_0>
                                                          : &pack_16_rows<TERN_PACK_GGUF_Q8_0>;
  for (int i = 0; i < kInt8Columns; i += kLanes) {
    side(from, i < from.n ? from.rows + i * from.row_bytes : from.rows, std::clamp(from.n - i, 0, kLanes), i, to);
  }
}

// M rows of x by all columns of a panel.
template <int M, int Parts, bool Minima>
void multiply_rows(const Int8Tile& tile, std::int64_t row) {
  const Int8Rows x = tile.x.from(row);
  __m512 sums[M][kSides];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int s = 0; s < kSides; ++s) sums[m][s] = _mm512_setzero_ps();
  }
  const std::uint8_t* codes = tile.w.codes;
  for (std::int64_t part = 0; part < x.groups * Parts; ++part, codes += kGroupBytes / Parts) {
    __m512i dots[M][kSides];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const __m512i start = _mm512_set1_epi32(x.starts[m * x.groups * Parts + part]);
#pragma GCC unroll 2
      for (int s = 0; s < kSides; ++s) dots[m][s] = start;
    }
    const std::int8_t* q = x.q + part * (kInt8Block / Parts);
#pragma GCC unroll 8
    for (int i = 0; i < 8 / Parts; ++i) {
      __m512i w[kSides];
#pragma GCC unroll 2
      for (int s = 0; s < kSides; ++s) w[s] = _mm512_loadu_si512(codes + i * 4 * kInt8Columns + s * 64);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        std::int32_t four;
        std::memcpy(&four, q + m * x.groups * kInt8Block + 4 * i, 4);
        const __m512i spread = _mm512_set1_epi32(four);
#pragma GCC unroll 2
        for (int s = 0; s < kSides; ++s) dots[m][s] = _mm512_dpbusd_epi32(dots[m][s], w[s], spread);
      }
    }
#pragma GCC unroll 2
    for (int s = 0; s < kSides; ++s) {
      const std::int64_t place = part * kInt8Columns + s * kLanes;
      const __m512 scale = _mm512_loadu_ps(tile.w.scales + place);
      const __m512 minimum = Minima ? _mm512_loadu_ps(tile.w.minima + place) : scale;
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[m * x.groups + part / Parts]));
        sums[m][s] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[m][s]), by, sums[m][s]);
        if constexpr (Minima) {
          sums[m][s] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(x.sums[m * x.groups * Parts + part]), sums[m][s]);
        }
      }
    }
  }
  for (int s = 0; s < kSides; ++s) {
    const auto mask = static_cast<__mmask16>((1U << std::clamp(tile.columns - s * kLanes, 0, kLanes)) - 1U);
    for (int m = 0; m < M; ++m) {
      float* y = tile.y + (row + m) * tile.ld + s * kLanes;
      __m512 sum = sums[m][s];
      if (tile.bias != nullptr) sum = _mm512_add_ps(sum, _mm512_loadu_ps(tile.bias + s * kLanes));
      if (tile.accumulate) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, y));
      _mm512_mask_storeu_ps(y, mask, sum);
    }
  }
}

template <int Parts, bool Minima>
void multiply_any(const Int8Tile& tile) {
  using Rows = void (*)(const Int8Tile&, std::int64_t);
  constexpr Rows kRows[kMostRows] = {&multiply_rows<1, Parts, Minima>, &multiply_rows<2, Parts, Minima>,
                                     &multiply_rows<3, Parts, Minima>, &multiply_rows<4, Parts, Minima>,
                                     &multiply_rows<5, Parts, Minima>, &multiply_rows<6, Parts, Minima>};
  for (std::int64_t row = 0; row < tile.rows;) {
    const std::int64_t left = tile.rows - row;
    // The last rows in two equal parts, as few of them wait for what one after the other adds.
    const bool halves = left < 2 * kMostRows && left > kMostRows;
    const std::int64_t n = halves ? (left + 1) / 2 : std::min<std::int64_t>(left, kMostRows);
    kRows[n - 1](tile, row);
    row += n;
  }
}

void multiply(const Int8Tile& tile) {
  if (tile.x.parts == 2) return tile.minima ? multiply_any<2, true>(tile) : multiply_any<2, false>(tile);
  return tile.minima ? multiply_any<1, true>(tile) : multiply_any<1, false>(tile);
}

constexpr Int8Kernels kKernels = {&quantise, &pack, &multiply};

}  // namespace

const Int8Kernels* int8_kernels_avx512_vnni() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const Int8Kernels* int8_kernels_avx512_vnni() { return nullptr; }
}  // namespace tern::cpu
#endif
