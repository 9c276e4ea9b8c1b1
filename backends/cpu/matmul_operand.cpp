#include "backends/cpu/matmul_operand.h"

#include "backends/cpu/x15.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {

bool is_product_dtype(tern_dtype dtype) { return dtype == TERN_F32 || dtype == TERN_BF16 || dtype == TERN_F16; }

std::int32_t panel_layout(Target target, std::uint32_t use) {
  return static_cast<std::int32_t>(use << 8) + gemm_kernels(target).nr;
}

bool check_weight(const tern_tensor_desc& weight, Target target, bool forward, const char* name, std::string& reason) {
  if (weight.rank != 2) {
    reason = cat(name, " has rank ", weight.rank, ", expected 2");
    return false;
  }
  if (weight.scheme.packing != TERN_PACK_NONE) {
    if (weight.layout != 0) {
      reason = cat(name, " is quantised and in a private layout, which this device never makes");
      return false;
    }
    const BlockSize block = packing_block(weight.scheme.packing);
    if (block.elements == 0) return reads_planes(weight.scheme, weight.shape[1], reason);
    if (weight.shape[1] % block.elements != 0) {
      reason = cat(name, " has rows of ", weight.shape[1], " elements, no multiple of the block of ", block.elements);
      return false;
    }
    return true;
  }
  if (!is_product_dtype(weight.dtype)) {
    reason = cat(name, " is ", dtype_name(weight.dtype), ", products take f32, bf16 and f16");
    return false;
  }
  if (weight.layout != 0 && weight.layout != panel_layout(target, forward ? TERN_USE_FORWARD : TERN_USE_INPUT_GRAD)) {
    reason = cat(name, " is in the private layout ", weight.layout, ", which does not serve this product");
    return false;
  }
  return true;
}

GemmOperand weight_operand(const TensorView& weight, Target target, bool forward) {
  if (weight.desc.layout != 0) {
    const std::int64_t k = weight.dim(forward ? 1 : 0);
    GemmOperand operand;
    operand.kind = GemmOperand::Kind::panels;
    operand.data = weight.planes[0];
    operand.dtype = weight.dtype();
    operand.stride_outer = (operand.dtype == TERN_F32 ? k : (k + 1) / 2) * gemm_kernels(target).nr;
    return operand;
  }
  if (weight.desc.scheme.packing == TERN_PACK_NONE) {
    return dense_operand(weight, weight.planes[0], forward ? 0 : 1, forward ? 1 : 0);
  }
  GemmOperand operand;
  const bool along = !lies_across(weight.desc.scheme.packing);
  operand.kind = forward == along ? GemmOperand::Kind::rows_k : GemmOperand::Kind::rows_outer;
  operand.rows = quantised_rows(weight);
  return operand;
}

GemmOperand dense_operand(const TensorView& tensor, const void* data, int outer, int k) {
  GemmOperand operand;
  operand.data = data;
  operand.dtype = tensor.dtype();
  operand.stride_outer = tensor.stride(outer);
  operand.stride_k = tensor.stride(k);
  return operand;
}

}  // namespace tern::cpu
