// From the tensors of an op to the sides of a product.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/gemm.h"
#include "backends/cpu/kernel.h"

namespace tern::cpu {

[[nodiscard]] bool is_product_dtype(tern_dtype dtype);  // f32, bf16 or f16

// Private layouts of a dense weight [out, in]: panels for x W^T, or for dy W.
[[nodiscard]] std::int32_t panel_layout(Target target, std::uint32_t use);

// Whether a weight [out, in] can be the right side of x W^T (`forward`) or of dy W; if not, says why.
[[nodiscard]] bool check_weight(const tern_tensor_desc& weight, Target target, bool forward, const char* name,
                                std::string& reason);
// The right side of x W^T (`forward`) or of dy W.
[[nodiscard]] GemmOperand weight_operand(const TensorView& weight, Target target, bool forward);
// A dense matrix with dimension `outer` across and `k` along the product; `data` is its first element.
[[nodiscard]] GemmOperand dense_operand(const TensorView& tensor, const void* data, int outer, int k);

[[nodiscard]] inline std::int64_t dtype_size(tern_dtype dtype) { return dtype == TERN_F32 ? 4 : 2; }

}  // namespace tern::cpu
