// Products of 8-bit activations for AVX2, whose dot products of bytes are of pairs, in 16 bits that saturate.
#include "backends/cpu/int8.h"
#include "backends/cpu/x15.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/target_region.h"

TERN_TARGET_BEGIN("avx2,fma,f16c,bmi,bmi2")
#include "backends/cpu/vec_x86_256.h"
//
#include "backends/cpu/x15_x86_256.h"
//
#include "backends/cpu/int8_inl.h"

namespace tern::cpu {
namespace {

struct MultiplyAdd {
  TERN_INLINE __m256i add(__m256i sum, __m256i a, __m256i b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
};
using Numbers = Whole256<MultiplyAdd>;

struct Bytes256 {
  using I = __m256i;
  using F = __m256;
  using Dots = __m256i;
  static constexpr int kLanes = 8, kSides = 2, kRows = 3;

  TERN_INLINE F zero() { return _mm256_setzero_ps(); }
  TERN_INLINE I load(const std::uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  TERN_INLINE F load(const float* p) { return _mm256_loadu_ps(p); }
  TERN_INLINE F load_part(const float* p, int n) { return Vec256::load_part(p, n); }
  TERN_INLINE void store_part(float* p, F x, int n) { Vec256::store_part(p, x, n); }
  TERN_INLINE I spread(std::int32_t x) { return _mm256_set1_epi32(x); }
  TERN_INLINE F spread(float x) { return _mm256_set1_ps(x); }
  TERN_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  TERN_INLINE F plus(F a, F b) { return _mm256_add_ps(a, b); }
  TERN_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  TERN_INLINE I of_pairs(I sums) { return _mm256_madd_epi16(sums, _mm256_set1_epi16(1)); }
};

// Codes of four bits: sums of pairs of a whole block fit 16 bits.
struct Nibbles256 : Bytes256 {
  TERN_INLINE Dots begin(std::int32_t) { return _mm256_setzero_si256(); }
  TERN_INLINE Dots add(Dots dots, I w, I x) { return _mm256_add_epi16(dots, _mm256_maddubs_epi16(w, x)); }
  TERN_INLINE F end(Dots dots, std::int32_t start) {
    return _mm256_cvtepi32_ps(_mm256_add_epi32(of_pairs(dots), spread(start)));
  }
};

// Codes with a sign, which goes over to x: two products of at most 128 by 127 fit.
struct Signed256 : Bytes256 {
  TERN_INLINE Dots begin(std::int32_t start) { return spread(start); }
  TERN_INLINE Dots add(Dots dots, I w, I x) {
    return _mm256_add_epi32(dots, of_pairs(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))));
  }
  TERN_INLINE F end(Dots dots, std::int32_t) { return _mm256_cvtepi32_ps(dots); }
};

constexpr Int8Kernels kKernels = {0, &int8_quantise<Numbers>, &int8_pack<Numbers>, &int8_multiply<Nibbles256>,
                                  &int8_multiply<Signed256>};

}  // namespace

const Int8Kernels* int8_kernels_avx2() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const Int8Kernels* int8_kernels_avx2() { return nullptr; }
}  // namespace tern::cpu
#endif
