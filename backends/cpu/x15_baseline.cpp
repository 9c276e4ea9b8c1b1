// x15 products for the compiler's base: SSE4.2 on x86, NEON on Arm 64. And the choice among all of them.
#include "backends/cpu/target_region.h"
#include "backends/cpu/x15.h"
#include "backends/cpu/x15_128.h"
//
#include "backends/cpu/x15_inl.h"

namespace tern::cpu {
namespace {

constexpr X15Kernels kKernels = make_x15<Whole128>();

}  // namespace

bool x15_reads(tern_packing packing) {
  return (packing >= TERN_PACK_GGUF_Q4_0 && packing <= TERN_PACK_GGUF_MXFP4) || packing == TERN_PACK_ROW_INT8;
}

const X15Kernels& x15_kernels(Target target) {
  const X15Kernels* found = nullptr;
  switch (target) {
    case Target::avx2:
    case Target::avx512:
      found = x15_kernels_avx2();
      break;
    case Target::avx512_vnni:
    case Target::avx512_bf16:
    case Target::amx_bf16:
      found = x15_kernels_avx512_vnni();
      break;
    default:
      break;
  }
  return found != nullptr ? *found : kKernels;
}

}  // namespace tern::cpu
