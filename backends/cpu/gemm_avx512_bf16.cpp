// Matrix kernels for AVX-512 with dot products of bf16 pairs.
#include "backends/cpu/gemm_kernels.h"

#if defined(__x86_64__)
// gcc 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/target_region.h"
#include "base/half.h"

TERN_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512bf16,fma,f16c,avx2,bmi,bmi2")
#include "backends/cpu/vec_x86_512.h"
//
#include "backends/cpu/gemm_kernels_inl.h"

namespace tern::cpu {
namespace {

// Rounds in one instruction. It takes subnormals for 0, as the products do.
struct Vec512Bf16 : Vec512 {
  static void store_bf16(std::uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x));
  }
};

// 32 weights of a Q4 block by looking up the 16 that there are, already rounded. Scales are read eight blocks at a
// time.
void expand_bf16(tern_packing packing, const std::uint8_t* src, std::int64_t blocks, std::uint16_t* dst) {
  if (packing == TERN_PACK_GGUF_Q8_0) return expand_bf16_any<Vec512Bf16>(packing, src, blocks, dst);
  constexpr std::int64_t kAtOnce = 8;
  const bool has_minimum = packing == TERN_PACK_GGUF_Q4_1;
  const std::int64_t codes = has_minimum ? 4 : 2, bytes = codes + 16;
  const __m512 steps = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  alignas(32) std::uint32_t heads[kAtOnce] = {};  // the scale, and above it the minimum or codes
  alignas(32) float scales[kAtOnce], shifts[kAtOnce];
  for (; blocks > 0; blocks -= kAtOnce) {
    const std::int64_t n = std::min(kAtOnce, blocks);
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(heads + i, src + i * bytes, sizeof(std::uint32_t));
    const __m256i words = _mm256_load_si256(reinterpret_cast<const __m256i*>(heads));
    const __m256 scale = _mm256_cvtph_ps(_mm256_cvtepi32_epi16(words));
    const __m256 minimum = _mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srli_epi32(words, 16)));
    _mm256_store_ps(scales, scale);
    _mm256_store_ps(shifts, has_minimum ? minimum : _mm256_mul_ps(_mm256_set1_ps(-8.0F), scale));
    for (std::int64_t i = 0; i < n; ++i, src += bytes, dst += 32) {
      const __m512 values = _mm512_fmadd_ps(_mm512_set1_ps(scales[i]), steps, _mm512_set1_ps(shifts[i]));
      const auto table = (__m256i)_mm512_cvtneps_pbh(values);
      // The low four bits of an index count.
      const __m256i low = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + codes)));
      auto* to = reinterpret_cast<__m256i*>(dst);
      _mm256_storeu_si256(to, _mm256_permutexvar_epi16(low, table));
      _mm256_storeu_si256(to + 1, _mm256_permutexvar_epi16(_mm256_srli_epi16(low, 4), table));
    }
  }
}

// 32 weights of a block, rounded: of nibbles by looking up the 16 that there are.
template <tern_packing Packing>
inline __attribute__((always_inline)) __m512i block_weights(float scale, float shift, const std::uint8_t* codes) {
  if constexpr (Packing == TERN_PACK_GGUF_Q8_0) {
    const auto* bytes = reinterpret_cast<const std::int8_t*>(codes);
    const __m512 factor = _mm512_set1_ps(scale);
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(factor, Vec512::load_i8(bytes + 16)),
                                        _mm512_mul_ps(factor, Vec512::load_i8(bytes)));
  }
  const __m512 steps = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512 values = _mm512_fmadd_ps(_mm512_set1_ps(scale), steps, _mm512_set1_ps(shift));
  // Twice, as five bits of an index count.
  const auto table = (__m512i)_mm512_cvtne2ps_pbh(values, values);
  const __m512i high_by_4 = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(4), 1);
  const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  return _mm512_permutexvar_epi16(_mm512_srlv_epi16(_mm512_cvtepu8_epi16(twice), high_by_4), table);
}

// 16 columns of a panel, of which n have a row.
template <tern_packing Packing>
void pack_16_rows(const BlockPanel& panel, const std::uint8_t* rows, int n, std::uint32_t* to) {
  constexpr bool has_minimum = Packing == TERN_PACK_GGUF_Q4_1;
  constexpr std::int64_t codes = has_minimum ? 4 : 2, bytes = codes + (Packing == TERN_PACK_GGUF_Q8_0 ? 32 : 16);
  constexpr std::int64_t kColumns = 2 * Vec512::width;
  const auto stride = static_cast<int>(panel.row_bytes);
  const __m512i counted = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i places = _mm512_mullo_epi32(counted, _mm512_set1_epi32(stride));
  const auto present = static_cast<__mmask16>((1U << n) - 1U);
  alignas(64) float scales[16], shifts[16];
  for (std::int64_t block = 0; block < panel.blocks; ++block, rows += bytes, to += 16 * kColumns) {
    // The scale, and above it the minimum or codes.
    const __m512i heads = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), present, places, rows, 1);
    const __m512 scale = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(heads));
    const __m512 minimum = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(heads, 16)));
    _mm512_store_ps(scales, scale);
    _mm512_store_ps(shifts, has_minimum ? minimum : _mm512_mul_ps(_mm512_set1_ps(-8.0F), scale));
    __m512i weights[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const std::uint8_t* from = rows + (i < n ? i * panel.row_bytes : 0);
      __builtin_prefetch(from + panel.ahead, 0, 2);
      weights[i] = block_weights<Packing>(scales[i], shifts[i], from + codes);
    }
    Vec512::transpose_registers(weights, to, kColumns);
  }
}

void pack_blocks(const BlockPanel& panel) {
  const auto pack = panel.packing == TERN_PACK_GGUF_Q4_1   ? &pack_16_rows<TERN_PACK_GGUF_Q4_1>
                    : panel.packing == TERN_PACK_GGUF_Q4_0 ? &pack_16_rows<TERN_PACK_GGUF_Q4_0>
                                                           : &pack_16_rows<TERN_PACK_GGUF_Q8_0>;
  for (int i = 0; i < 2 * Vec512::width; i += 16) {
    pack(panel, i < panel.n ? panel.rows + i * panel.row_bytes : panel.rows, std::clamp(panel.n - i, 0, 16),
         panel.to + i);
  }
}

struct DotBf16 {
  using B = __m512bh;
  using F = __m512;
  static B load(const std::uint32_t* p) { return (__m512bh)_mm512_loadu_si512(p); }
  static B broadcast(const std::uint32_t* p) { return (__m512bh)_mm512_set1_epi32(static_cast<int>(*p)); }
  static B of(__m512 pairs) { return (__m512bh)pairs; }
  static F accumulate(F c, B a, B b) { return _mm512_dpbf16_ps(c, a, b); }
  // A sum is one chain.
  using Sum = F;
  static Sum begin(F from) { return from; }
  static void fold(Sum& /*sum*/) {}
  static F total(Sum sum) { return sum; }
};

constexpr GemmKernels with_pairs() {
  GemmKernels kernels = make_kernels<Vec512Bf16, 14, 24>();
  kernels.expand_bf16 = &expand_bf16;
  kernels.pack_blocks_bf16 = &pack_blocks;
  kernels.multiply_bf16 = &multiply_any<Vec512Bf16, DotBf16, 14, 24>;
  kernels.multiply_plain_bf16 = &multiply_plain_any<Vec512Bf16, DotBf16>;
  return kernels;
}
constexpr GemmKernels kKernels = with_pairs();

}  // namespace

const GemmKernels* gemm_kernels_avx512_bf16() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const GemmKernels* gemm_kernels_avx512_bf16() { return nullptr; }
}  // namespace tern::cpu
#endif
