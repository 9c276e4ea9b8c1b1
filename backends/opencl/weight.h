// Quantised weights: which ones the kernels of cl/packing.clh expand, and what they are told of one.
#pragma once

#include <string>

#include "backends/opencl/kernel.h"

namespace tern::opencl {

// Whether a weight [out, in] is quantised in a way that cl/packing.clh expands; if not, says why.
[[nodiscard]] bool expands_weight(const tern_tensor_desc& weight, std::string& reason);

// WEIGHT_PARAMETERS of cl/packing.clh.
void weight_args(Call& call, const TensorView& weight);

// Expanding a part of a weight, which may also lie as numbers: rows x columns from the given first ones on.
struct Expansion {
  std::int64_t first_row = 0, rows = 0;
  std::int64_t first_column = 0, columns = 0;  // both multiples of 16 where the weight is quantised
  Place out;
  tern_dtype out_dtype = TERN_F32;
  std::int64_t out_row = 0, out_column = 1;
};
[[nodiscard]] Function expand_function(tern_packing packing);
void expand_weight(Call call, const TensorView& weight, const Expansion& part, const Facts& facts);

}  // namespace tern::opencl
