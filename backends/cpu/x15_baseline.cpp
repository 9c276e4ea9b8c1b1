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
  switch (packing) {
    case TERN_PACK_GGUF_Q4_0:
    case TERN_PACK_GGUF_Q4_1:
    case TERN_PACK_GGUF_Q5_0:
    case TERN_PACK_GGUF_Q5_1:
    case TERN_PACK_GGUF_Q8_0:
    case TERN_PACK_GGUF_Q4_K:
    case TERN_PACK_GGUF_Q6_K:
      return true;
    default:
      return false;
  }
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
      found = x15_kernels_avx512_vnni();
      break;
    default:
      break;
  }
  return found != nullptr ? *found : kKernels;
}

}  // namespace tern::cpu
