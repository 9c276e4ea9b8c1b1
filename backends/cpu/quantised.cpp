#include "backends/cpu/quantised.h"

#include <algorithm>

#include "backends/cpu/check.h"
#include "backends/cpu/x15.h"
#include "base/strings.h"

namespace tern::cpu {

namespace {

// Those of GemmKernels::expand.
bool has_own_loop(tern_packing packing) {
  return packing == TERN_PACK_GGUF_Q4_0 || packing == TERN_PACK_GGUF_Q4_1 || packing == TERN_PACK_GGUF_Q8_0;
}

}  // namespace

void expand_groups(Target target, tern_packing packing, const std::uint8_t* row, std::int64_t first,
                   std::int64_t groups, float* dst) {
  if (!has_own_loop(packing)) return x15_kernels(target).expand(packing, row, first, groups, dst);
  gemm_kernels(target).expand(packing, row + first * packing_block(packing).bytes, groups, dst);
}

void expand_groups(Target target, tern_packing packing, const std::uint8_t* row, std::int64_t first,
                   std::int64_t groups, std::uint16_t* dst) {
  const GemmKernels& kernels = gemm_kernels(target);
  if (has_own_loop(packing)) {
    return kernels.expand_bf16(packing, row + first * packing_block(packing).bytes, groups, dst);
  }
  constexpr std::int64_t kStrip = 8;
  float wide[kStrip * kX15Block];
  for (std::int64_t g = 0; g < groups; g += kStrip) {
    const std::int64_t n = std::min(kStrip, groups - g);
    x15_kernels(target).expand(packing, row, first + g, n, wide);
    kernels.narrow(TERN_BF16, wide, dst + g * kX15Block, n * kX15Block);
  }
}

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
    default:
      break;
  }
  const BlockSize block = packing_block(desc.scheme.packing);
  if (block.elements == 0) return reads_planes(desc.scheme, desc.shape[1], reason);
  if (desc.shape[1] % block.elements == 0) return true;
  reason = cat("a row of ", desc.shape[1], " elements is no whole number of blocks of ", block.elements);
  return false;
}

const float* row_tile(const TileIo& io, const TensorView& view, std::int64_t row, std::int64_t first, std::int64_t n,
                      Target target, float* buffer) {
  const auto packing = view.desc.scheme.packing;
  if (packing == TERN_PACK_NONE) {
    return io.load(view, row * view.stride(0) + first * view.stride(1), view.stride(1), n, buffer);
  }
  const QuantisedRows rows = quantised_rows(view);
  if (lies_across(packing)) {
    expand_output(target, rows, row, first, n, buffer);
  } else {
    RowExpander(target, rows).expand(row, first, n, buffer);
  }
  return buffer;
}

bool fits_forward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_MATMUL_Q_X);
  const auto& w = desc.arg(TERN_MATMUL_Q_W);
  const auto& bias = desc.arg(TERN_MATMUL_Q_BIAS);
  const auto& y = desc.arg(TERN_MATMUL_Q_Y);
  if (!Check(desc, reason).floats({TERN_MATMUL_Q_X, TERN_MATMUL_Q_BIAS, TERN_MATMUL_Q_Y}).ok()) return false;
  const std::int64_t k = w.shape[1];
  if (k % std::max(packing_block(w.scheme.packing).elements, 1) != 0) {
    reason = cat("w has rows of ", k, " elements, which is no whole number of blocks");
  } else if (x.rank != 2 || y.rank != 2 || x.shape[0] != y.shape[0] || x.shape[1] != k || y.shape[1] != w.shape[0] ||
             (bias.rank != 0 && (bias.rank != 1 || bias.shape[0] != w.shape[0]))) {
    reason = "the shapes of x, w, bias and y do not fit each other";
  } else {
    return true;
  }
  return false;
}

const float* row_scales(const TileIo& io, const QuantisedRows& w, std::int64_t first, std::int64_t n, float* buffer) {
  TensorView scales;
  scales.desc.dtype = w.scheme.scale_dtype;
  scales.planes[0] = const_cast<std::uint8_t*>(w.planes[1]);
  return io.load(scales, first, 1, n, buffer);
}

}  // namespace tern::cpu
