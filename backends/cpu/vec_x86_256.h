// AVX2 vectors with FMA and F16C: included inside a target region (target_region.h) of a file that may use them.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tern::cpu {
namespace {

struct Vec256 {
  using F = __m256;
  static constexpr int width = 8;

  static F zero() { return _mm256_setzero_ps(); }
  static F set1(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static F load_part(const float* p, int n) { return _mm256_maskload_ps(p, mask(n)); }
  static void store_part(float* p, F x, int n) { _mm256_maskstore_ps(p, mask(n), x); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }  // b where either is NaN
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
  static F round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F less_select(F a, F b, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
  static F pow2(F n) {  // 2^n for integral n in [-126, 127]
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
  }
  static F copy_sign(F magnitude, F sign) {
    const F bit = _mm256_set1_ps(-0.0F);
    return _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign));
  }
  static float sum(F a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // to[i] = the sum of v[i]
  static void sum_four(const F (&v)[4], float* to) {
    const F all = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
  }
  static float largest(F a) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static F load_bf16(const std::uint16_t* p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
  }
  static F load_f16(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void store_bf16(std::uint16_t* p, F x) {
    const __m256i bits = bf16_bits(x);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
  }
  static void store_f16(std::uint16_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static F round_bf16(F x) { return _mm256_castsi256_ps(_mm256_slli_epi32(bf16_bits(x), 16)); }
  static F round_f16(F x) { return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); }
  // E4M3 as 2^-8 of what they are: their bits stand in fp16 as they lie.
  static F load_e4m3(const std::uint8_t* p) {
    const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m128i below_sign = _mm_set1_epi16(static_cast<std::int16_t>(0xbfff));
    return _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(wide, 7), below_sign));
  }
  static F load_i8(const std::int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static float half(const std::uint8_t* p) {  // one fp16, at any address
    std::uint16_t bits;
    std::memcpy(&bits, p, 2);
    return _cvtsh_ss(bits);
  }
  // scale q + shift for the low, then the high halves of 16 bytes: each product is exact in fp32.
  static void expand_nibbles(float scale, float shift, const std::uint8_t* p, float* dst) {
    const F factor = set1(scale), offset = set1(shift);
    for (int i = 0; i < 16; i += 8) {
      const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i)));
      store(dst + i, fma(factor, _mm256_cvtepi32_ps(_mm256_and_si256(wide, _mm256_set1_epi32(15))), offset));
      store(dst + 16 + i, fma(factor, _mm256_cvtepi32_ps(_mm256_srli_epi32(wide, 4)), offset));
    }
  }
  static void zip(const std::uint16_t* low, const std::uint16_t* high, std::uint32_t* dst) {
    const __m256i l = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low)));
    const __m256i h = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(high)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), _mm256_or_si256(l, _mm256_slli_epi32(h, 16)));
  }
  // out[j] = the j-th of the four 32-bit elements at each of `width` rows, ld apart.
  static inline __attribute__((always_inline)) void turn4(const std::uint32_t* p, std::int64_t ld, F (&out)[4]) {
    __m256 r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {  // rows i and 4 + i
      const auto row = [&](int at) { return _mm_loadu_ps(reinterpret_cast<const float*>(p + (i + at) * ld)); };
      r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(row(0)), row(4), 1);
    }
    const __m256 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]);
    const __m256 c = _mm256_unpacklo_ps(r[2], r[3]), d = _mm256_unpackhi_ps(r[2], r[3]);
    out[0] = _mm256_shuffle_ps(a, c, 0x44);
    out[1] = _mm256_shuffle_ps(a, c, 0xee);
    out[2] = _mm256_shuffle_ps(b, d, 0x44);
    out[3] = _mm256_shuffle_ps(b, d, 0xee);
  }
  // dst[j * ld_dst + i] = src[i * ld_src + j] for i, j < 8: 32-bit elements; rows from `rows` on count as 0.
  static void transpose(const std::uint32_t* src, std::int64_t ld_src, int rows, std::uint32_t* dst,
                        std::int64_t ld_dst) {
    __m256 r[8], t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      r[i] = i < rows ? _mm256_loadu_ps(reinterpret_cast<const float*>(src + i * ld_src)) : _mm256_setzero_ps();
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
      r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
      r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
      r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    // In rising order: callers let a line spill into the next.
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const __m256 line = i < 4 ? _mm256_permute2f128_ps(r[i % 4], r[4 + i % 4], 0x20)
                                : _mm256_permute2f128_ps(r[i % 4], r[4 + i % 4], 0x31);
      _mm256_storeu_ps(reinterpret_cast<float*>(dst + i * ld_dst), line);
    }
  }

 private:
  static __m256i mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static __m256i bf16_bits(F x) {  // in the low half of each lane
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  }
};

}  // namespace
}  // namespace tern::cpu
