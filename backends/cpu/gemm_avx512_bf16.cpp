// Matrix kernels for AVX-512 with dot products of bf16 pairs.
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

#include "base/half.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx512bf16,fma,f16c,avx2,bmi,bmi2")
#include "backends/cpu/vec_x86_512.h"
//
#include "backends/cpu/gemm_kernels_inl.h"

namespace tern::cpu {
namespace {

struct DotBf16 {
  using B = __m512bh;
  static B load(const std::uint32_t* p) { return (__m512bh)_mm512_loadu_si512(p); }
  static B broadcast(const std::uint32_t* p) { return (__m512bh)_mm512_set1_epi32(static_cast<int>(*p)); }
  static __m512 accumulate(__m512 c, B a, B b) { return _mm512_dpbf16_ps(c, a, b); }
};

constexpr GemmKernels with_pairs() {
  GemmKernels kernels = make_kernels<Vec512, 14, 24>();
  kernels.multiply_bf16 = &multiply_any<Vec512, DotBf16, 14, 24>;
  return kernels;
}
constexpr GemmKernels kKernels = with_pairs();

}  // namespace

const GemmKernels* gemm_kernels_avx512_bf16() { return &kKernels; }

}  // namespace tern::cpu
#else
namespace tern::cpu {
const GemmKernels* gemm_kernels_avx512_bf16() { return nullptr; }
}  // namespace tern::cpu
#endif
