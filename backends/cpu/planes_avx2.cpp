// Weights in planes for AVX2.
#include "backends/cpu/planes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/target_region.h"

TERN_TARGET_BEGIN("avx2,fma,f16c,bmi,bmi2")
#include "backends/cpu/planes_x86.h"
//
#include "backends/cpu/planes_inl.h"

namespace tern::cpu {
namespace {

struct Planes256 {
  static constexpr int W = 8;
  typedef std::uint32_t U __attribute__((vector_size(32)));
  typedef std::int32_t I __attribute__((vector_size(32)));
  typedef std::int16_t Halves __attribute__((vector_size(32)));
  typedef float F __attribute__((vector_size(32)));
  struct Levels {
    __m256 low, high;
  };

  TERN_INLINE void store(float* p, F a) { _mm256_storeu_ps(p, __m256(a)); }
  TERN_INLINE F add_product(F sum, F a, F b) { return F(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(sum))); }
  TERN_INLINE float total(F a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(__m256(a)), _mm256_extractf128_ps(__m256(a), 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  TERN_INLINE __m128i eight(const std::uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
  TERN_INLINE F from_i8(const std::uint8_t* p) { return F(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight(p)))); }
  TERN_INLINE F from_f8(const std::uint8_t* p) {
    const __m256i half = f8_as_half(_mm256_castsi128_si256(_mm_cvtepu8_epi16(eight(p))));
    return F(_mm256_cvtph_ps(_mm256_castsi256_si128(half))) * 256.0F;
  }
  TERN_INLINE Levels levels(const float* numbers) { return {_mm256_loadu_ps(numbers), _mm256_loadu_ps(numbers + 8)}; }
  TERN_INLINE F from_levels4(const Levels& levels, const std::uint8_t* pairs) {
    const __m256i codes = _mm256_cvtepu8_epi32(nf4_codes(pairs, 4));
    const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));
    return F(_mm256_blendv_ps(_mm256_permutevar8x32_ps(levels.low, codes), _mm256_permutevar8x32_ps(levels.high, codes),
                              is_high));
  }
  TERN_INLINE void step_of_f8(const std::uint8_t* p, F* out) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) out[i] = from_f8(p + i * W);
  }
  TERN_INLINE void step_of_levels4(const Levels& levels, const std::uint8_t* pairs, F* out) {
    const auto of = [&](__m256i codes) {
      const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));
      return F(_mm256_blendv_ps(_mm256_permutevar8x32_ps(levels.low, codes),
                                _mm256_permutevar8x32_ps(levels.high, codes), is_high));
    };
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const __m256i both = _mm256_cvtepu8_epi32(eight(pairs + i * W));
      out[i] = of(_mm256_srli_epi32(both, 4));
      out[i + 2] = of(both);
    }
  }
  TERN_INLINE U spread(const std::uint32_t* one) { return U{} + *one; }
  TERN_INLINE I dot(I sum, const std::int32_t* pairs, const std::int16_t* q) {
    std::int32_t pair;
    std::memcpy(&pair, q, 4);
    const __m256i codes = _mm256_load_si256(reinterpret_cast<const __m256i*>(pairs));
    return sum + I(_mm256_madd_epi16(codes, _mm256_set1_epi32(pair)));
  }
};

constexpr PlaneKernels kKernels = make_planes<Planes256>();

}  // namespace

const PlaneKernels* plane_kernels_avx2() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const PlaneKernels* plane_kernels_avx2() { return nullptr; }
}  // namespace tern::cpu
#endif
