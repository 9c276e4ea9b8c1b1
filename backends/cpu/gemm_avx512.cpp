// Matrix kernels for AVX-512 without bf16 products.
#include "backends/cpu/gemm_kernels.h"

#if defined(__x86_64__)
// gcc 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/target_region.h"
#include "base/half.h"

TERN_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,fma,f16c,avx2,bmi,bmi2")
#include "backends/cpu/vec_x86_512.h"
//
#include "backends/cpu/gemm_kernels_inl.h"

namespace tern::cpu {
namespace {

constexpr GemmKernels kKernels = make_kernels<Vec512, 14, 24>();

}  // namespace

const GemmKernels* gemm_kernels_avx512() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const GemmKernels* gemm_kernels_avx512() { return nullptr; }
}  // namespace tern::cpu
#endif
