// Row loops for the compiler's base: SSE4.2 on x86, NEON on Arm 64. And the choice among all of them.
#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/vec_128.h"
//
#include "backends/cpu/attention_kernels_inl.h"

namespace tern::cpu {
namespace {

constexpr RowKernels kKernels = make_row_kernels<Vec128>();

}  // namespace

const RowKernels* row_kernels_baseline() { return &kKernels; }

const RowKernels& row_kernels(Target target) {
  const RowKernels* found = nullptr;
  if (target == Target::avx2) found = row_kernels_avx2();
  if (target >= Target::avx512 && target <= Target::amx_bf16) found = row_kernels_avx512();
  return found != nullptr ? *found : kKernels;
}

}  // namespace tern::cpu
