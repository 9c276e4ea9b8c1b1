#include "backends/cpu/quantised.h"

#include "base/strings.h"

namespace tern::cpu {

bool readable_rows(const tern_tensor_desc& desc, std::string& reason) {
  if (desc.rank != 2) {
    reason = cat("expected a weight of rank 2, found ", desc.rank);
    return false;
  }
  switch (desc.scheme.packing) {
    case TERN_PACK_NONE:
      if (desc.dtype == TERN_F32 || desc.dtype == TERN_BF16 || desc.dtype == TERN_F16) return true;
      reason = cat("expected f32, bf16 or f16, found ", dtype_name(desc.dtype));
      return false;
    case TERN_PACK_GGUF_Q4_0:
    case TERN_PACK_GGUF_Q4_1:
    case TERN_PACK_GGUF_Q8_0:
      if (desc.shape[1] % packing_block(desc.scheme.packing).elements == 0) return true;
      reason = cat("a row of ", desc.shape[1], " elements is no whole number of blocks");
      return false;
    default:
      reason = cat("packing ", packing_name(desc.scheme.packing), " is not one that this device expands");
      return false;
  }
}

const float* row_tile(const TileIo& io, const TensorView& view, std::int64_t row, std::int64_t first, std::int64_t n,
                      Target target, float* buffer) {
  const auto packing = view.desc.scheme.packing;
  if (packing == TERN_PACK_NONE) {
    return io.load(view, row * view.stride(0) + first * view.stride(1), view.stride(1), n, buffer);
  }
  const auto block = packing_block(packing);
  const std::int64_t at = (row * view.dim(1) + first) / block.elements * block.bytes;
  gemm_kernels(target).expand(packing, view.data<const std::uint8_t>() + at, n / block.elements, buffer);
  return buffer;
}

}  // namespace tern::cpu
