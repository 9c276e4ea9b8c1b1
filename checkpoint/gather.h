// What each quantiser's tensors are together. A name is that of the weight, or of its module; what doesn't fit throws
// Failure (data).
#pragma once

#include <string>

#include "checkpoint/plane_finder.h"

namespace tern::checkpoint {

// AutoAWQ, of which `gemm` and `gemv` lie in files: qweight, qzeros, scales.
[[nodiscard]] LogicalTensor awq_tensor(PlaneFinder& finder, const std::string& module);
// "gemm", say: AutoAWQ's name of it, or GPTQModel's.
[[nodiscard]] std::string awq_version(const PlaneFinder& finder);
// AutoGPTQ and GPTQModel: qweight, qzeros, scales and g_idx.
[[nodiscard]] LogicalTensor gptq_tensor(PlaneFinder& finder, const std::string& module);
// compressed-tensors' pack-quantized: weight_packed, weight_scale, weight_shape, and weight_zero_point and weight_g_idx
// where it has them.
[[nodiscard]] LogicalTensor packed_tensor(PlaneFinder& finder, const std::string& module);
// compressed-tensors' int-quantized and float-quantized: weight i8 or f8 [n, k] and the weight_scale of the whole, of
// each row, of groups of a row, or of blocks.
[[nodiscard]] LogicalTensor scaled_tensor(PlaneFinder& finder, const std::string& weight);
// bitsandbytes' nf4 or fp4, whose state is JSON in a tensor of bytes, `state`.
[[nodiscard]] LogicalTensor bnb_4bit_tensor(PlaneFinder& finder, const std::string& weight, const std::string& state);
// bitsandbytes' int8: weight i8 [n, k], SCB f32 [n], the largest magnitude of each row.
[[nodiscard]] LogicalTensor bnb_8bit_tensor(PlaneFinder& finder, const std::string& module);

// Throws Failure (data) where quantization_config is of a method, or says something of the weights, that nothing here
// reads: such a checkpoint must not pass for one that's read.
void check_quantization(const PlaneFinder& finder);

}  // namespace tern::checkpoint
