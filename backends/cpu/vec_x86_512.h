// AVX-512 vectors: included inside a target region (target_region.h) of a file that may use them.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tern::cpu {
namespace {

struct Vec512 {
  using F = __m512;
  static constexpr int width = 16;

  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static F load_part(const float* p, int n) { return _mm512_maskz_loadu_ps(mask(n), p); }
  static void store_part(float* p, F x, int n) { _mm512_mask_storeu_ps(p, mask(n), x); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }  // b where either is NaN
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F abs(F a) { return _mm512_abs_ps(a); }
  static F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F less_select(F a, F b, F yes, F no) {  // a < b ? yes : no
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  static F pow2(F n) {  // 2^n for integral n in [-126, 127]
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
  }
  static F copy_sign(F magnitude, F sign) {
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(magnitude), _mm512_castps_si512(sign),
                                                         _mm512_set1_epi32(static_cast<int>(0x80000000U)), 0xd8));
  }
  static float sum(F a) { return _mm512_reduce_add_ps(a); }
  // to[i] = the sum of v[i]
  static void sum_four(const F (&v)[4], float* to) {
    const F ab = add(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    const F cd = add(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    const __m512d left = _mm512_castps_pd(ab), right = _mm512_castps_pd(cd);
    const F all =
        add(_mm512_castpd_ps(_mm512_unpacklo_pd(left, right)), _mm512_castpd_ps(_mm512_unpackhi_pd(left, right)));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }
  static float largest(F a) { return _mm512_reduce_max_ps(a); }

  static F load_bf16(const std::uint16_t* p) { return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F load_f16(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void store_bf16(std::uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(bf16_bits(x)));
  }
  static void store_f16(std::uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static F round_bf16(F x) { return _mm512_castsi512_ps(_mm512_slli_epi32(bf16_bits(x), 16)); }
  static F round_f16(F x) { return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); }
  // A table of 16 floats, looked up by the low, then by the high halves of 16 bytes.
  static void lookup_nibbles(F table, const std::uint8_t* p, float* dst) {
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    store(dst, _mm512_permutexvar_ps(wide, table));  // by the low four bits of each lane
    store(dst + 16, _mm512_permutexvar_ps(_mm512_srli_epi32(wide, 4), table));
  }
  // scale q + shift for the 16 nibbles of Q4 blocks: each product is exact in fp32.
  static void expand_nibbles(float scale, float shift, const std::uint8_t* p, float* dst) {
    const F steps = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    lookup_nibbles(fma(set1(scale), steps, set1(shift)), p, dst);
  }
  static float half(const std::uint8_t* p) {  // one fp16, at any address
    std::uint16_t bits;
    std::memcpy(&bits, p, 2);
    return _cvtsh_ss(bits);
  }
  static F load_i8(const std::int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  // E4M3 as 2^-8 of what they are: their bits stand in fp16 as they lie.
  static F load_e4m3(const std::uint8_t* p) {
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i below_sign = _mm256_set1_epi16(static_cast<std::int16_t>(0xbfff));
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(wide, 7), below_sign));
  }
  static void zip(const std::uint16_t* low, const std::uint16_t* high, std::uint32_t* dst) {
    const __m512i l = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(low)));
    const __m512i h = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(high)));
    _mm512_storeu_si512(dst, _mm512_or_si512(l, _mm512_slli_epi32(h, 16)));
  }
  // out[j] = the j-th of the four 32-bit elements at each of `width` rows, ld apart.
  static inline __attribute__((always_inline)) void turn4(const std::uint32_t* p, std::int64_t ld, F (&out)[4]) {
    __m512i r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {  // rows i, 4 + i, 8 + i, 12 + i: loads under a mask spare the one port that shuffles
      const auto row = [&](int at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + (i + at) * ld)); };
      r[i] = _mm512_castsi128_si512(row(0));
      r[i] = _mm512_mask_broadcast_i32x4(r[i], 0x00f0, row(4));
      r[i] = _mm512_mask_broadcast_i32x4(r[i], 0x0f00, row(8));
      r[i] = _mm512_mask_broadcast_i32x4(r[i], 0xf000, row(12));
    }
    const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
    const __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
    out[0] = _mm512_castsi512_ps(_mm512_unpacklo_epi64(a, c));
    out[1] = _mm512_castsi512_ps(_mm512_unpackhi_epi64(a, c));
    out[2] = _mm512_castsi512_ps(_mm512_unpacklo_epi64(b, d));
    out[3] = _mm512_castsi512_ps(_mm512_unpackhi_epi64(b, d));
  }
  // dst[j * ld_dst + i] = src[i * ld_src + j] for i, j < 16: 32-bit elements; rows from `rows` on count as 0.
  static void transpose(const std::uint32_t* src, std::int64_t ld_src, int rows, std::uint32_t* dst,
                        std::int64_t ld_dst) {
    __m512i r[16];
    const auto ahead = static_cast<std::uintptr_t>(64 * ld_src);
    if (rows >= 16) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        r[i] = _mm512_loadu_si512(src + i * ld_src);
        // Rows lie far apart: the processor does not see that the next sixteen are wanted soon. An integer, as the
        // address may lie outside of the array. NOLINTNEXTLINE(performance-no-int-to-ptr)
        _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(src + i * ld_src) + ahead),
                     _MM_HINT_T1);
      }
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        r[i] = _mm512_maskz_loadu_epi32(i < rows ? 0xffff : 0, src + (i < rows ? i * ld_src : 0));
      }
    }
    transpose_registers(r, dst, ld_dst);
  }

  // dst[j * ld_dst + i] = the j-th of the 32-bit elements of r[i].
  static inline __attribute__((always_inline)) void transpose_registers(__m512i (&r)[16], std::uint32_t* dst,
                                                                        std::int64_t ld_dst) {
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
      t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
      r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
      r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
      r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    // r[4 g + c] holds, in 128-bit lane l, column 4 l + c of rows 4 g .. 4 g + 3.
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      t[c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
      t[4 + c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
      t[8 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
      t[12 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
    }
    // In rising order: callers let a line spill into the next.
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) _mm512_storeu_si512(dst + c * ld_dst, _mm512_shuffle_i32x4(t[c], t[8 + c], 0x88));
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      _mm512_storeu_si512(dst + (4 + c) * ld_dst, _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0x88));
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) _mm512_storeu_si512(dst + (8 + c) * ld_dst, _mm512_shuffle_i32x4(t[c], t[8 + c], 0xdd));
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      _mm512_storeu_si512(dst + (12 + c) * ld_dst, _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0xdd));
    }
  }

 private:
  static __mmask16 mask(int n) { return static_cast<__mmask16>((1U << n) - 1U); }
  static F widen(__m256i half) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16)); }
  static __m512i bf16_bits(F x) {  // in the low half of each lane
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), rounded, quiet);
  }
};

}  // namespace
}  // namespace tern::cpu
