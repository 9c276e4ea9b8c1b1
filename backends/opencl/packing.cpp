// How many bytes the planes of a tensor have.
#include "backends/opencl/kernel.h"
#include "tern/plugin/desc.h"

namespace tern::opencl {

PackingBlock packing_block(tern_packing packing) {
  switch (packing) {
    case TERN_PACK_GGUF_Q4_0:
    case TERN_PACK_GGUF_IQ4_NL:
      return {32, 18};
    case TERN_PACK_GGUF_Q4_1:
      return {32, 20};
    case TERN_PACK_GGUF_Q5_0:
      return {32, 22};
    case TERN_PACK_GGUF_Q5_1:
      return {32, 24};
    case TERN_PACK_GGUF_Q8_0:
      return {32, 34};
    case TERN_PACK_GGUF_MXFP4:
      return {32, 17};
    case TERN_PACK_GGUF_Q2_K:
      return {256, 84};
    case TERN_PACK_GGUF_Q3_K:
      return {256, 110};
    case TERN_PACK_GGUF_Q4_K:
      return {256, 144};
    case TERN_PACK_GGUF_Q5_K:
      return {256, 176};
    case TERN_PACK_GGUF_Q6_K:
      return {256, 210};
    case TERN_PACK_GGUF_IQ4_XS:
      return {256, 136};
    default:
      return {0, 0};
  }
}

std::uint64_t plane_bytes(const tern_tensor_desc& desc, int plane) {
  std::uint64_t bytes = 0;
  if (desc.rank == 0) return 0;
  if (tern_plugin_is_strided(&desc) != 0) {
    (void)tern_plugin_extent(&desc, &bytes);
    return plane == 0 ? bytes : 0;
  }
  const PackingBlock block = packing_block(desc.scheme.packing);
  if (plane != 0 || block.elements == 0) return 0;
  return static_cast<std::uint64_t>(tern_plugin_elements(&desc) / block.elements * block.bytes);
}

}  // namespace tern::opencl
