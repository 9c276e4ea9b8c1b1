// Matrix kernels for AVX2 with FMA and F16C.
#include "backends/cpu/gemm_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/target_region.h"
#include "base/half.h"

TERN_TARGET_BEGIN("avx2,fma,f16c,bmi,bmi2")
#include "backends/cpu/vec_x86_256.h"
//
#include "backends/cpu/gemm_kernels_inl.h"

namespace tern::cpu {
namespace {

constexpr GemmKernels kKernels = make_kernels<Vec256, 6, 12>();

}  // namespace

const GemmKernels* gemm_kernels_avx2() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const GemmKernels* gemm_kernels_avx2() { return nullptr; }
}  // namespace tern::cpu
#endif
