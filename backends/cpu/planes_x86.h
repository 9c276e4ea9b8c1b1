// Codes of nf4 and fp8 in registers of AVX2 and AVX-512: included inside a target region (target_region.h).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tern::cpu {
namespace {

// E4M3 in the low halves, as f16 that are 256 times smaller: its exponent has a bit less. NaN stays one.
TERN_INLINE __m256i f8_as_half(__m256i codes) {
  const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
  const __m256i nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
  const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x80)), 8);
  const __m256i half = _mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign);
  return _mm256_or_si256(half, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
}

// The codes of `bytes` pairs, at most 8, one a byte: the high half of each comes first.
TERN_INLINE __m128i nf4_codes(const std::uint8_t* pairs, int bytes) {
  std::uint64_t low = 0;
  std::memcpy(&low, pairs, static_cast<std::size_t>(bytes));
  const __m128i both = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<long long>(low)));
  const __m128i second = _mm_slli_epi16(_mm_and_si128(both, _mm_set1_epi16(15)), 8);
  return _mm_or_si128(_mm_srli_epi16(both, 4), second);
}

}  // namespace
}  // namespace tern::cpu
