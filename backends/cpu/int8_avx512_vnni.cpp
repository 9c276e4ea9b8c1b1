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
#include "backends/cpu/int8_inl.h"

namespace tern::cpu {
namespace {

struct DotPairs {
  TERN_INLINE __m256i add(__m256i sum, __m256i a, __m256i b) { return _mm256_dpwssd_epi32(sum, a, b); }
};
using Numbers = Whole256<DotPairs>;

struct Bytes512 {
  using I = __m512i;
  using F = __m512;
  using Dots = __m512i;
  static constexpr int kLanes = 16, kSides = 2, kRows = 6;  // whose sums and dot products are in registers

  TERN_INLINE F zero() { return _mm512_setzero_ps(); }
  TERN_INLINE I load(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  TERN_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  TERN_INLINE F load_part(const float* p, int n) { return Vec512::load_part(p, n); }
  TERN_INLINE void store_part(float* p, F x, int n) { Vec512::store_part(p, x, n); }
  TERN_INLINE I spread(std::int32_t x) { return _mm512_set1_epi32(x); }
  TERN_INLINE F spread(float x) { return _mm512_set1_ps(x); }
  TERN_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  TERN_INLINE F plus(F a, F b) { return _mm512_add_ps(a, b); }
  TERN_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  TERN_INLINE Dots begin(std::int32_t start) { return _mm512_set1_epi32(start); }
  TERN_INLINE Dots add(Dots dots, I w, I x) { return _mm512_dpbusd_epi32(dots, w, x); }
  TERN_INLINE F end(Dots dots, std::int32_t) { return _mm512_cvtepi32_ps(dots); }
};

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
  alignas(64) std::uint32_t heads[2][Bytes512::kLanes];
  const std::int64_t ahead = kInt8Columns * from.row_bytes;
  for (std::int64_t group = 0; group < from.groups; group += 2) {
    const std::int64_t next = group + 1 < from.groups ? bytes : 0;
    __m512i weights[Bytes512::kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < Bytes512::kLanes; ++i) {
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

void pack(const Int8Source& from, const Int8Panel& to) {
  if (from.packing != TERN_PACK_GGUF_Q4_1 && from.packing != TERN_PACK_GGUF_Q4_0 &&
      from.packing != TERN_PACK_GGUF_Q8_0) {
    return int8_pack<Numbers>(from, to);
  }
  const auto side = from.packing == TERN_PACK_GGUF_Q4_1   ? &pack_16_rows<TERN_PACK_GGUF_Q4_1>
                    : from.packing == TERN_PACK_GGUF_Q4_0 ? &pack_16_rows<TERN_PACK_GGUF_Q4_0>
                                                          : &pack_16_rows<TERN_PACK_GGUF_Q8_0>;
  for (int i = 0; i < kInt8Columns; i += 16) {
    side(from, i < from.n ? from.rows + i * from.row_bytes : from.rows, std::clamp(from.n - i, 0, 16), i, to);
  }
}

constexpr Int8Kernels kKernels = {128, &int8_quantise<Numbers>, &pack, &int8_multiply<Bytes512>,
                                  &int8_multiply<Bytes512>};

}  // namespace

const Int8Kernels* int8_kernels_avx512_vnni() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const Int8Kernels* int8_kernels_avx512_vnni() { return nullptr; }
}  // namespace tern::cpu
#endif
