// x15 products for AVX-512 with VNNI.
#include "backends/cpu/x15.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/target_region.h"

TERN_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512vnni,fma,f16c,avx2,bmi,bmi2")
#include "backends/cpu/x15_x86_256.h"
//
#include "backends/cpu/x15_inl.h"

namespace tern::cpu {
namespace {

struct DotPairs {
  TERN_INLINE __m256i add(__m256i sum, __m256i a, __m256i b) { return _mm256_dpwssd_epi32(sum, a, b); }
};
constexpr X15Kernels kKernels = make_x15<Whole256<DotPairs>>();

}  // namespace

const X15Kernels* x15_kernels_avx512_vnni() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const X15Kernels* x15_kernels_avx512_vnni() { return nullptr; }
}  // namespace tern::cpu
#endif
