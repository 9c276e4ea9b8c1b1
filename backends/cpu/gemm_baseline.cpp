// Matrix kernels for the compiler's base: SSE4.2 on x86, NEON on Arm 64. And the choice among all of them.
#include "backends/cpu/gemm_kernels.h"
#include "backends/cpu/vec_128.h"
//
#include "backends/cpu/gemm_kernels_inl.h"

namespace tern::cpu {
namespace {

constexpr GemmKernels kKernels = make_kernels<Vec128, 6, 12>();

}  // namespace

const GemmKernels* gemm_kernels_baseline() { return &kKernels; }

const GemmKernels& gemm_kernels(Target target) {
  const GemmKernels* found = nullptr;
  switch (target) {
    case Target::avx2:
      found = gemm_kernels_avx2();
      break;
    case Target::avx512:
    case Target::avx512_vnni:
      found = gemm_kernels_avx512();
      break;
    case Target::avx512_bf16:
      found = gemm_kernels_avx512_bf16();
      break;
    case Target::amx_bf16:
      found = gemm_kernels_amx_bf16();
      break;
    default:
      break;
  }
  return found != nullptr ? *found : kKernels;
}

}  // namespace tern::cpu
