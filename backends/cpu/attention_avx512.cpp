// Row loops for AVX-512.
#include "backends/cpu/attention_kernels.h"

#if defined(__x86_64__)
// gcc 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/target_region.h"

TERN_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,fma,f16c,avx2,bmi,bmi2")
#include "backends/cpu/vec_x86_512.h"
//
#include "backends/cpu/attention_kernels_inl.h"

namespace tern::cpu {
namespace {

constexpr RowKernels kKernels = make_row_kernels<Vec512>();

}  // namespace

const RowKernels* row_kernels_avx512() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const RowKernels* row_kernels_avx512() { return nullptr; }
}  // namespace tern::cpu
#endif
