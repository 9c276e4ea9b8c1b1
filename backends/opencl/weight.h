// Quantised weights: which ones the kernels of cl/packing.clh expand, and what they are told of one.
#pragma once

#include <string>

#include "backends/opencl/kernel.h"

namespace tern::opencl {

// Whether a weight [out, in] is quantised in a way that cl/packing.clh expands; if not, says why.
[[nodiscard]] bool expands_weight(const tern_tensor_desc& weight, std::string& reason);

// WEIGHT_PARAMETERS of cl/packing.clh.
void weight_args(Call& call, const TensorView& weight);

}  // namespace tern::opencl
