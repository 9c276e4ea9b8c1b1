// x15 products for AVX2.
#include "backends/cpu/x15.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/target_region.h"

TERN_TARGET_BEGIN("avx2,fma,f16c,bmi,bmi2")
#include "backends/cpu/x15_x86_256.h"
//
#include "backends/cpu/x15_inl.h"
//
#include "backends/cpu/x15_sideways_inl.h"

namespace tern::cpu {
namespace {

struct MultiplyAdd {
  TERN_INLINE __m256i add(__m256i sum, __m256i a, __m256i b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
};
using Numbers = Whole256<MultiplyAdd>;
constexpr X15Sideways kEight = make_x15_sideways<Lanes256<MultiplyAdd>, Numbers>();
constexpr X15Kernels kKernels = make_x15<Numbers>(kEight, kEight);

}  // namespace

const X15Kernels* x15_kernels_avx2() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const X15Kernels* x15_kernels_avx2() { return nullptr; }
}  // namespace tern::cpu
#endif
