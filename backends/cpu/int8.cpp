#include "backends/cpu/int8.h"

namespace tern::cpu {

std::optional<Int8Packing> int8_packing(tern_packing packing) {
  switch (packing) {
    case TERN_PACK_GGUF_Q4_0:
      return Int8Packing{4, 8, 1, false};
    case TERN_PACK_GGUF_Q4_1:
    case TERN_PACK_GGUF_Q4_K:
      return Int8Packing{4, 0, 1, true};
    case TERN_PACK_GGUF_Q2_K:
      return Int8Packing{2, 0, 2, true};
    case TERN_PACK_GGUF_Q5_1:
    case TERN_PACK_GGUF_Q5_K:
      return Int8Packing{8, 0, 1, true};
    case TERN_PACK_GGUF_Q3_K:
    case TERN_PACK_GGUF_Q6_K:
      return Int8Packing{8, 0, 2, false};
    case TERN_PACK_GGUF_Q5_0:
    case TERN_PACK_GGUF_Q8_0:
    case TERN_PACK_GGUF_IQ4_NL:
    case TERN_PACK_GGUF_IQ4_XS:
    case TERN_PACK_GGUF_MXFP4:
    case TERN_PACK_ROW_INT8:
      return Int8Packing{8, 0, 1, false};
    default:
      return std::nullopt;
  }
}

const Int8Kernels* int8_kernels(Target target) {
  switch (target) {
    case Target::avx2:
    case Target::avx512:
      return int8_kernels_avx2();
    case Target::avx512_vnni:
    case Target::avx512_bf16:
    case Target::amx_bf16:
      return int8_kernels_avx512_vnni();
    default:
      return nullptr;
  }
}

}  // namespace tern::cpu
