// Weights in planes for AVX-512 with VNNI.
#include "backends/cpu/planes.h"

#if defined(__x86_64__)
// gcc 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/target_region.h"

TERN_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512vnni,fma,f16c,avx2,bmi,bmi2")
#include "backends/cpu/planes_x86.h"
//
#include "backends/cpu/planes_inl.h"

namespace tern::cpu {
namespace {

struct Planes512 {
  static constexpr int W = 16;
  typedef std::uint32_t U __attribute__((vector_size(64)));
  typedef std::int32_t I __attribute__((vector_size(64)));
  typedef std::int16_t Halves __attribute__((vector_size(64)));
  typedef float F __attribute__((vector_size(64)));

  TERN_INLINE void store(float* p, F a) { _mm512_storeu_ps(p, __m512(a)); }
  TERN_INLINE F add_product(F sum, F a, F b) { return F(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(sum))); }
  TERN_INLINE float total(F a) { return _mm512_reduce_add_ps(__m512(a)); }
  TERN_INLINE F from_i8(const std::uint8_t* p) {
    return F(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))));
  }
  TERN_INLINE F from_f8(const std::uint8_t* p) {
    const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return F(_mm512_cvtph_ps(f8_as_half(wide))) * 256.0F;
  }
  TERN_INLINE __m512 levels(const float* numbers) { return _mm512_loadu_ps(numbers); }
  TERN_INLINE F from_levels4(__m512 levels, const std::uint8_t* pairs) {
    return F(_mm512_permutexvar_ps(_mm512_cvtepu8_epi32(nf4_codes(pairs, 8)), levels));
  }
  // As f8_as_half, of 32.
  TERN_INLINE void step_of_f8(const std::uint8_t* p, F* out) {
    const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    const __m512i half = _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16(static_cast<short>(0xbf80)));
    const __m512i most = _mm512_set1_epi16(0x3f80);
    const __mmask32 nan = _mm512_cmpeq_epi16_mask(_mm512_and_si512(half, most), most);
    const __m512i numbers = _mm512_or_si512(half, _mm512_maskz_set1_epi16(nan, 0x7e00));
    out[0] = F(_mm512_cvtph_ps(_mm512_castsi512_si256(numbers))) * 256.0F;
    out[1] = F(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(numbers, 1))) * 256.0F;
  }
  TERN_INLINE void step_of_levels4(__m512 levels, const std::uint8_t* pairs, F* out) {
    const __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs)));
    out[0] = F(_mm512_permutexvar_ps(_mm512_srli_epi32(both, 4), levels));
    out[1] = F(_mm512_permutexvar_ps(both, levels));  // by the lowest four bits
  }
  TERN_INLINE U spread(const std::uint32_t* two) {
    const __m512i order = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i words = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(two));
    return U(_mm512_permutexvar_epi32(order, _mm512_castsi128_si512(words)));
  }
  TERN_INLINE I dot(I sum, const std::int32_t* pairs, const std::int16_t* q) {
    std::int32_t pair;
    std::memcpy(&pair, q, 4);
    return I(_mm512_dpwssd_epi32(__m512i(sum), _mm512_load_si512(pairs), _mm512_set1_epi32(pair)));
  }
};

constexpr PlaneKernels kKernels = make_planes<Planes512>();

}  // namespace

const PlaneKernels* plane_kernels_avx512_vnni() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const PlaneKernels* plane_kernels_avx512_vnni() { return nullptr; }
}  // namespace tern::cpu
#endif
