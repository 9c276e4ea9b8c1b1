// Weights in planes for AVX2.
#include "backends/cpu/planes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/target_region.h"
#include "base/nf4.h"

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
  TERN_INLINE __m128i eight(const std::uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
  TERN_INLINE F from_i8(const std::uint8_t* p) { return F(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight(p)))); }
  TERN_INLINE F from_f8(const std::uint8_t* p) {
    const __m256i half = f8_as_half(_mm256_castsi128_si256(_mm_cvtepu8_epi16(eight(p))));
    return F(_mm256_cvtph_ps(_mm256_castsi256_si128(half))) * 256.0F;
  }
  TERN_INLINE Levels levels() { return {_mm256_loadu_ps(kNf4Levels.data()), _mm256_loadu_ps(kNf4Levels.data() + 8)}; }
  TERN_INLINE F from_nf4(const Levels& levels, const std::uint8_t* pairs) {
    const __m256i codes = _mm256_cvtepu8_epi32(nf4_codes(pairs, 4));
    const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));
    return F(_mm256_blendv_ps(_mm256_permutevar8x32_ps(levels.low, codes), _mm256_permutevar8x32_ps(levels.high, codes),
                              is_high));
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
