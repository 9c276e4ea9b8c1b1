// Row loops for AVX2 with FMA.
#include "backends/cpu/attention_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/target_region.h"

TERN_TARGET_BEGIN("avx2,fma,f16c,bmi,bmi2")
#include "backends/cpu/vec_x86_256.h"
//
#include "backends/cpu/attention_kernels_inl.h"

namespace tern::cpu {
namespace {

constexpr RowKernels kKernels = make_row_kernels<Vec256>();

}  // namespace

const RowKernels* row_kernels_avx2() { return &kKernels; }

}  // namespace tern::cpu
TERN_TARGET_END
#else
namespace tern::cpu {
const RowKernels* row_kernels_avx2() { return nullptr; }
}  // namespace tern::cpu
#endif
