/* How many bytes the planes of a tensor have, quantised or not: for backends in C++, which check planes by it. */
#ifndef TERN_PLUGIN_PACKING_H
#define TERN_PLUGIN_PACKING_H

#ifdef __cplusplus
#include <cstdint>

#include "tern/plugin/desc.h"

namespace tern_plugin {

// How a one-plane packing interleaves: so many elements in so many bytes. {0, 0}: it isn't one.
struct PackingBlock {
  std::int64_t elements;
  std::int64_t bytes;
};
[[nodiscard]] inline PackingBlock packing_block(tern_packing packing) {
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

// Packings with planes of their own: accel_types.h says what lies in each.
[[nodiscard]] inline std::uint64_t scheme_plane_bytes(const tern_tensor_desc& desc, int plane) {
  constexpr std::int64_t kScaleLevels = 256;  // of scales that are quantised themselves
  const tern_scheme& scheme = desc.scheme;
  if (desc.rank != 2 || tern_plugin_elements(&desc) == 0) return 0;
  const std::int64_t rows = desc.shape[0], columns = desc.shape[1], count = rows * columns;
  const std::int64_t group = scheme.group_cols > 0 ? scheme.group_cols : columns;
  const std::int64_t group_rows = scheme.group_rows > 0 ? scheme.group_rows : 1;
  const auto scale = static_cast<std::int64_t>(tern_plugin_dtype_bytes(scheme.scale_dtype));
  const auto parts = [](std::int64_t x, std::int64_t to) { return (x + to - 1) / to; };
  std::int64_t bytes[TERN_MAX_PLANES] = {};
  switch (scheme.packing) {
    case TERN_PACK_ROW_INT8:
    case TERN_PACK_F8_BLOCK:
      bytes[0] = count;
      bytes[1] = parts(rows, group_rows) * parts(columns, group) * scale;
      break;
    case TERN_PACK_AWQ_INT4:
    case TERN_PACK_GPTQ_INT4: {
      const std::int64_t bits = scheme.packing == TERN_PACK_AWQ_INT4 ? 4 : scheme.bits;
      const bool ordered = scheme.packing == TERN_PACK_AWQ_INT4 || (scheme.flags & TERN_SCHEME_IN_ORDER) != 0;
      bytes[0] = count * bits / 8;
      bytes[1] = rows * parts(columns, group) * scale;
      bytes[2] = rows * parts(columns, group) * bits / 8;
      bytes[3] = ordered ? 0 : columns * 4;
      break;
    }
    case TERN_PACK_NF4:
    case TERN_PACK_FP4: {
      const std::int64_t scales = parts(count, group);
      bytes[0] = parts(count, 2);
      bytes[1] = scales * scale;
      if ((scheme.flags & TERN_SCHEME_DOUBLE_QUANT) != 0)
        bytes[2] = (kScaleLevels + 1 + parts(scales, kScaleLevels)) * 4;
      break;
    }
    default:
      break;
  }
  return static_cast<std::uint64_t>(bytes[plane]);
}

// Bytes that a plane of a tensor must have; 0: none, or not known (planes of scales, which their kernels check).
[[nodiscard]] inline std::uint64_t plane_bytes(const tern_tensor_desc& desc, int plane) {
  std::uint64_t bytes = 0;
  if (desc.rank == 0) return 0;
  if (tern_plugin_is_strided(&desc) != 0) {
    (void)tern_plugin_extent(&desc, &bytes);
    return plane == 0 ? bytes : 0;
  }
  const PackingBlock block = packing_block(desc.scheme.packing);
  if (block.elements == 0) return scheme_plane_bytes(desc, plane);
  if (plane != 0) return 0;
  return static_cast<std::uint64_t>(tern_plugin_elements(&desc) / block.elements * block.bytes);
}

}  // namespace tern_plugin
#endif
#endif
