// x15 products for AVX-512 with VNNI.
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
#include "backends/cpu/x15_inl.h"
//
#include "backends/cpu/x15_sideways_inl.h"

namespace tern::cpu {
namespace {

struct DotPairs {
  TERN_INLINE __m256i add(__m256i sum, __m256i a, __m256i b) { return _mm256_dpwssd_epi32(sum, a, b); }
};

// Sixteen rows of x in a register.
struct Lanes512 {
  using I = __m512i;
  using F = __m512;
  static constexpr int kLanes = 16, kColumns = 8;

  TERN_INLINE I none() { return _mm512_setzero_si512(); }
  TERN_INLINE I load(const std::int32_t* p) { return _mm512_load_si512(p); }
  TERN_INLINE F load(const float* p) { return _mm512_load_ps(p); }
  TERN_INLINE void store(float* p, F a) { _mm512_store_ps(p, a); }
  TERN_INLINE void turn(const X15Rows::Block* blocks, std::int64_t stride, int rows, std::int32_t* to) {
    Vec512::transpose(reinterpret_cast<const std::uint32_t*>(blocks), stride * 16, rows,
                      reinterpret_cast<std::uint32_t*>(to), kLanes);
  }
  TERN_INLINE I dot(I sum, I pairs, const std::int16_t* codes) {
    std::int32_t pair;
    std::memcpy(&pair, codes, 4);
    return _mm512_dpwssd_epi32(sum, pairs, _mm512_set1_epi32(pair));
  }
  TERN_INLINE F scaled(F acc, I dots, F scales, const float* by) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), _mm512_mul_ps(scales, _mm512_set1_ps(*by)), acc);
  }
  TERN_INLINE F added(F acc, F sums, const float* by) { return _mm512_fmadd_ps(sums, _mm512_set1_ps(*by), acc); }
};

using Numbers = Whole256<DotPairs>;
constexpr X15Kernels kKernels =
    make_x15<Numbers>(make_x15_sideways<Lanes256<DotPairs>, Numbers>(), make_x15_sideways<Lanes512, Numbers>());

}  // namespace

const X15Kernels* x15_kernels_avx512_vnni() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const X15Kernels* x15_kernels_avx512_vnni() { return nullptr; }
}  // namespace tern::cpu
#endif
