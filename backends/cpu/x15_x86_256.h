// Whole numbers of 16 bits in 256-bit registers: included inside a target region (target_region.h).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tern::cpu {
namespace {

// Dot: how pairs of products are added to sums.
template <typename Dot>
struct Whole256 {
  using W = __m256i;  // 16 of int16
  using I = __m256i;  // 8 of int32
  using F = __m256;
  static constexpr int kMostRows = 8;

  TERN_INLINE F zero() { return _mm256_setzero_ps(); }
  TERN_INLINE I none() { return _mm256_setzero_si256(); }
  TERN_INLINE W bytes(const std::uint8_t* p) { return _mm256_cvtepu8_epi16(sixteen(p)); }
  TERN_INLINE W signed_bytes(const std::uint8_t* p) { return _mm256_cvtepi8_epi16(sixteen(p)); }
  TERN_INLINE W both(W a, int mask) { return _mm256_and_si256(a, _mm256_set1_epi16(static_cast<short>(mask))); }
  TERN_INLINE W either(W a, W b) { return _mm256_or_si256(a, b); }
  TERN_INLINE W right(W a, int bits) { return _mm256_srli_epi16(a, bits); }
  TERN_INLINE W left(W a, int bits) { return _mm256_slli_epi16(a, bits); }
  TERN_INLINE W minus(W a, int b) { return _mm256_sub_epi16(a, _mm256_set1_epi16(static_cast<short>(b))); }
  // `value` where bit i of `bits` is set
  TERN_INLINE W where(std::uint16_t bits, int value) {
    const W each = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
                                     static_cast<short>(0x8000));
    const W is_set = _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16(static_cast<short>(bits)), each), each);
    return both(is_set, value);
  }
  // table[low (or high) nibble of byte i], of 16 int8
  TERN_INLINE W look_up(const std::int8_t* table, const std::uint8_t* p, bool high) {
    __m128i at = sixteen(p);
    if (high) at = _mm_srli_epi16(at, 4);
    at = _mm_and_si128(at, _mm_set1_epi8(15));
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), at));
  }
  TERN_INLINE I dot(I sum, W w, const std::int16_t* x) {
    return Dot::add(sum, w, _mm256_load_si256(reinterpret_cast<const __m256i*>(x)));
  }
  TERN_INLINE F scaled(F acc, I sum, float scale) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(scale), acc);
  }
  // In all, by times *sum.
  TERN_INLINE F added(F acc, float by, const float* sum) {
    return _mm256_fmadd_ps(_mm256_set1_ps(by), _mm256_set1_ps(0.125F * *sum), acc);
  }
  TERN_INLINE F add_eight(F acc, const float* a, const float* b) {
    return _mm256_fmadd_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b), acc);
  }
  TERN_INLINE void multiply_eight(const float* a, const float* b, float* to) {
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b)));
  }
  // Eight bytes as floats times `by`.
  TERN_INLINE void eight(std::uint64_t bytes, float by, float* to) {
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes)));
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(by)));
  }
  // Bytes 0, 2, .. 14, 1, 3, .. 15.
  TERN_INLINE void deal(const std::uint8_t* p, std::uint8_t* to) {
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(sixteen(p), order));
  }
  // dst[i] = codes[i] scale + minimum, rounded once
  TERN_INLINE void expand(W codes, float scale, float minimum, float* dst) {
    const F by = _mm256_set1_ps(scale), add = _mm256_set1_ps(minimum);
    const F low = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(codes)));
    const F high = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(codes, 1)));
    _mm256_storeu_ps(dst, _mm256_fmadd_ps(low, by, add));
    _mm256_storeu_ps(dst + 8, _mm256_fmadd_ps(high, by, add));
  }
  TERN_INLINE float total(F a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  TERN_INLINE void two_halves(const std::uint8_t* p, float& first, float& second) {
    std::int32_t bits;
    std::memcpy(&bits, p, 4);
    const __m128 both = _mm_cvtph_ps(_mm_cvtsi32_si128(bits));
    first = _mm_cvtss_f32(both);
    second = _mm_cvtss_f32(_mm_movehdup_ps(both));
  }
  TERN_INLINE float half(const std::uint8_t* p) {
    std::uint16_t bits;
    std::memcpy(&bits, p, 2);
    return _cvtsh_ss(bits);
  }
  // The f16 numbers at p + i stride, and at p + i stride + 2, for i < 8.
  TERN_INLINE void eight_pairs(const std::uint8_t* p, std::int64_t stride, float* first, float* second) {
    const __m128i low = four_pairs(p, stride), high = four_pairs(p + 4 * stride, stride);
    _mm256_storeu_ps(first, _mm256_cvtph_ps(_mm_unpacklo_epi64(low, high)));
    _mm256_storeu_ps(second, _mm256_cvtph_ps(_mm_unpackhi_epi64(low, high)));
  }
  TERN_INLINE void eight_halves(const std::uint8_t* p, std::int64_t stride, float* to) {
    const __m128i low = four_pairs(p, stride), high = four_pairs(p + 4 * stride, stride);
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_unpacklo_epi64(low, high)));
  }
  TERN_INLINE void store(W codes, std::int16_t* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), codes); }

  // The bits of the largest |x| of 32.
  TERN_INLINE std::uint32_t largest_bits(const float* x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    for (int i = 0; i < 32; i += 8) {
      const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
      most = _mm256_max_epu32(most, _mm256_and_si256(bits, magnitude));
    }
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1))));
  }
  // q = x factor, rounded to even; sums of both halves.
  TERN_INLINE void round(const float* x, float factor, std::int16_t* q, std::int32_t* sums) {
    const __m256 by = _mm256_set1_ps(factor);
    for (int half = 0; half < 2; ++half) {
      const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16 * half), by));
      const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16 * half + 8), by));
      const __m256i narrow = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
      _mm256_store_si256(reinterpret_cast<__m256i*>(q + 16 * half), narrow);
      const __m256i both = _mm256_add_epi32(a, b);
      __m128i four = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
      four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
      sums[half] = _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
    }
  }

 private:
  // Words of 32 bits at p + i stride, i < 4: their low halves, then their high ones.
  TERN_INLINE __m128i four_pairs(const std::uint8_t* p, std::int64_t stride) {
    std::int32_t words[4];
    for (int i = 0; i < 4; ++i) std::memcpy(words + i, p + i * stride, 4);
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return _mm_shuffle_epi8(_mm_setr_epi32(words[0], words[1], words[2], words[3]), order);
  }
  TERN_INLINE __m128i sixteen(const std::uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
};

// Eight rows of x in a register.
template <typename Dot>
struct Lanes256 {
  using I = __m256i;
  using F = __m256;
  static constexpr int kLanes = 8, kColumns = 4;

  TERN_INLINE I none() { return _mm256_setzero_si256(); }
  TERN_INLINE I load(const std::int32_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
  TERN_INLINE F load(const float* p) { return _mm256_load_ps(p); }
  TERN_INLINE void store(float* p, F a) { _mm256_store_ps(p, a); }
  // Pairs of q of `rows` blocks, `stride` apart, as [16][kLanes]; 0 for those past the last.
  TERN_INLINE void turn(const X15Rows::Block* blocks, std::int64_t stride, int rows, std::int32_t* to) {
    for (int m = 0; m < kLanes; ++m) {
      for (int i = 0; i < 16; ++i) {
        std::int32_t pair = 0;
        if (m < rows) std::memcpy(&pair, blocks[m * stride].q + 2 * i, 4);
        to[i * kLanes + m] = pair;
      }
    }
  }
  // Of all rows' pairs by one pair of codes.
  TERN_INLINE I dot(I sum, I pairs, const std::int16_t* codes) {
    std::int32_t pair;
    std::memcpy(&pair, codes, 4);
    return Dot::add(sum, pairs, _mm256_set1_epi32(pair));
  }
  TERN_INLINE F scaled(F acc, I dots, F scales, const float* by) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(scales, _mm256_broadcast_ss(by)), acc);
  }
  TERN_INLINE F added(F acc, F sums, const float* by) { return _mm256_fmadd_ps(sums, _mm256_broadcast_ss(by), acc); }
};

}  // namespace
}  // namespace tern::cpu
