// Baseline vectors: SSE4.2 on x86-64-v2, NEON on Arm 64. Half floats are converted one by one where the baseline lacks
// the instruction.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/half.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

namespace tern::cpu {
namespace {

#if defined(__aarch64__)
struct Raw128 {
  using F = float32x4_t;
  static F zero() { return vdupq_n_f32(0); }
  static F set1(float x) { return vdupq_n_f32(x); }
  static F load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, F x) { vst1q_f32(p, x); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }  // b where either is NaN
  static F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static F abs(F a) { return vabsq_f32(a); }
  static F round(F a) { return vrndnq_f32(a); }
  static F less_select(F a, F b, F yes, F no) { return vbslq_f32(vcltq_f32(a, b), yes, no); }
  static F pow2(F n) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23)); }
  static F copy_sign(F magnitude, F sign) { return vbslq_f32(vdupq_n_u32(0x80000000U), sign, magnitude); }
  static F interleave_low(F a, F b) { return vzip1q_f32(a, b); }
  static F interleave_high(F a, F b) { return vzip2q_f32(a, b); }
  static float sum(F a) { return vaddvq_f32(a); }
  // to[i] = the sum of v[i]
  static void sum_four(const F (&v)[4], float* to) {
    vst1q_f32(to, vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3])));
  }
  static float largest(F a) { return vmaxvq_f32(a); }
  static F load_i8(const std::int8_t* p) {
    std::int32_t bytes;
    std::memcpy(&bytes, p, 4);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(static_cast<std::uint32_t>(bytes))))));
  }
  // E4M3 as 2^-8 of what they are: their bits stand in fp16 as they lie.
  static F load_e4m3(const std::uint8_t* p) {
    std::uint32_t bytes;
    std::memcpy(&bytes, p, 4);
    const int16x4_t wide = vget_low_s16(vmovl_s8(vcreate_s8(bytes)));
    const uint16x4_t bits = vand_u16(vreinterpret_u16_s16(vshl_n_s16(wide, 7)), vdup_n_u16(0xbfff));
    return vcvt_f32_f16(vreinterpret_f16_u16(bits));
  }
  static F load_bf16(const std::uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
  static F load_f16(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
  static void store_f16(std::uint16_t* p, F x) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
};
#else
struct Raw128 {
  using F = __m128;
  static F zero() { return _mm_setzero_ps(); }
  static F set1(float x) { return _mm_set1_ps(x); }
  static F load(const float* p) { return _mm_loadu_ps(p); }
  static void store(float* p, F x) { _mm_storeu_ps(p, x); }
  static F add(F a, F b) { return _mm_add_ps(a, b); }
  static F sub(F a, F b) { return _mm_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm_mul_ps(a, b); }
  static F div(F a, F b) { return _mm_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }  // the baseline has no fused one
  static F interleave_low(F a, F b) { return _mm_unpacklo_ps(a, b); }
  static F interleave_high(F a, F b) { return _mm_unpackhi_ps(a, b); }
  static F max(F a, F b) { return _mm_max_ps(a, b); }  // b where either is NaN
  static F min(F a, F b) { return _mm_min_ps(a, b); }
  static F abs(F a) { return _mm_andnot_ps(_mm_set1_ps(-0.0F), a); }
  static F round(F a) { return _mm_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F less_select(F a, F b, F yes, F no) { return _mm_blendv_ps(no, yes, _mm_cmplt_ps(a, b)); }
  static F pow2(F n) {
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_add_epi32(_mm_cvtps_epi32(n), _mm_set1_epi32(127)), 23));
  }
  static F copy_sign(F magnitude, F sign) {
    const F bit = _mm_set1_ps(-0.0F);
    return _mm_or_ps(_mm_andnot_ps(bit, magnitude), _mm_and_ps(bit, sign));
  }
  static float sum(F a) {
    const F two = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  // to[i] = the sum of v[i]
  static void sum_four(const F (&v)[4], float* to) {
    _mm_storeu_ps(to, _mm_hadd_ps(_mm_hadd_ps(v[0], v[1]), _mm_hadd_ps(v[2], v[3])));
  }
  static float largest(F a) {
    const F two = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static F load_i8(const std::int8_t* p) {
    std::int32_t bytes;
    std::memcpy(&bytes, p, 4);
    return _mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(bytes)));
  }
  // E4M3 as 2^-8 of what they are.
  static F load_e4m3(const std::uint8_t* p) {
    std::int32_t bytes;
    std::memcpy(&bytes, p, 4);
    const __m128i wide = _mm_cvtepi8_epi32(_mm_cvtsi32_si128(bytes));
    const F magnitude = _mm_castsi128_ps(_mm_slli_epi32(_mm_and_si128(wide, _mm_set1_epi32(0x7f)), 20));
    const F sign = _mm_castsi128_ps(_mm_and_si128(wide, _mm_set1_epi32(static_cast<int>(0x80000000U))));
    return _mm_or_ps(_mm_mul_ps(magnitude, _mm_set1_ps(0x1p112F)), sign);
  }
  static F load_bf16(const std::uint16_t* p) {
    return _mm_castsi128_ps(
        _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))), 16));
  }
  static F load_f16(const std::uint16_t* p) {
    return _mm_setr_ps(fp16_to_float(p[0]), fp16_to_float(p[1]), fp16_to_float(p[2]), fp16_to_float(p[3]));
  }
  static void store_f16(std::uint16_t* p, F x) {
    float lanes[4];
    store(lanes, x);
    for (int i = 0; i < 4; ++i) p[i] = float_to_fp16(lanes[i]);
  }
};
#endif

struct Vec128 : Raw128 {
  static constexpr int width = 4;

  static F load_part(const float* p, int n) {
    float lanes[4] = {};
    std::memcpy(lanes, p, static_cast<std::size_t>(n) * sizeof(float));
    return load(lanes);
  }
  static void store_part(float* p, F x, int n) {
    float lanes[4];
    store(lanes, x);
    std::memcpy(p, lanes, static_cast<std::size_t>(n) * sizeof(float));
  }
  static void store_bf16(std::uint16_t* p, F x) {
    float lanes[4];
    store(lanes, x);
    for (int i = 0; i < 4; ++i) p[i] = float_to_bf16(lanes[i]);
  }
  static F round_bf16(F x) {
    std::uint16_t bits[4];
    store_bf16(bits, x);
    return load_bf16(bits);
  }
  static F round_f16(F x) {
    std::uint16_t bits[4];
    store_f16(bits, x);
    return load_f16(bits);
  }
  static float half(const std::uint8_t* p) {  // one fp16, at any address
    return fp16_to_float(static_cast<std::uint16_t>(p[0] | (p[1] << 8)));
  }
  // scale q + shift for the low, then the high halves of 16 bytes: each product is exact in fp32.
  static void expand_nibbles(float scale, float shift, const std::uint8_t* p, float* dst) {
    const F factor = set1(scale), offset = set1(shift);
    std::int8_t lanes[32];
    for (int i = 0; i < 16; ++i) {
      lanes[i] = static_cast<std::int8_t>(p[i] & 15);
      lanes[16 + i] = static_cast<std::int8_t>(p[i] >> 4);
    }
    for (int i = 0; i < 32; i += 4) store(dst + i, add(mul(factor, load_i8(lanes + i)), offset));
  }
  static void zip(const std::uint16_t* low, const std::uint16_t* high, std::uint32_t* dst) {
    for (int i = 0; i < 4; ++i) dst[i] = low[i] | static_cast<std::uint32_t>(high[i]) << 16;
  }
  // out[j] = the j-th of the four 32-bit elements at each of `width` rows, ld apart.
  static inline __attribute__((always_inline)) void turn4(const std::uint32_t* p, std::int64_t ld, F (&out)[4]) {
    F r[4];
    for (int i = 0; i < 4; ++i) r[i] = load(reinterpret_cast<const float*>(p + i * ld));
    const F a = interleave_low(r[0], r[2]), b = interleave_high(r[0], r[2]);
    const F c = interleave_low(r[1], r[3]), d = interleave_high(r[1], r[3]);
    out[0] = interleave_low(a, c);
    out[1] = interleave_high(a, c);
    out[2] = interleave_low(b, d);
    out[3] = interleave_high(b, d);
  }
  // dst[j * ld_dst + i] = src[i * ld_src + j] for i, j < 4: 32-bit elements; rows from `rows` on count as 0.
  static void transpose(const std::uint32_t* src, std::int64_t ld_src, int rows, std::uint32_t* dst,
                        std::int64_t ld_dst) {
    std::uint32_t r[4][4] = {};
    for (int i = 0; i < std::min(rows, 4); ++i) std::memcpy(r[i], src + i * ld_src, sizeof r[i]);
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t column[4] = {r[0][i], r[1][i], r[2][i], r[3][i]};
      std::memcpy(dst + i * ld_dst, column, sizeof column);
    }
  }
};

}  // namespace
}  // namespace tern::cpu
