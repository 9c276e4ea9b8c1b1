// Quantised weights: which ones the kernels of cu/packing.cuh expand, and what they are told of one.
#pragma once

#include <string>

#include "backends/cuda/kernel.h"

namespace tern::cuda {

// The struct Weight of cu/packing.cuh.
struct PackedWeight {
  Place data = 0, scales = 0, zeros = 0, order = 0;
  std::int64_t rows = 0, columns = 0;
  std::int64_t group_rows = 1, group_cols = 1;
  std::int32_t scale_type = TERN_F32;
  std::int32_t bits = 0;
  std::int32_t less = 0;
  std::int32_t has_order = 0;
  std::int32_t twice = 0;
  std::int32_t group_shift = -1;
};

// Whether a weight [out, in] is quantised in a way that cu/packing.cuh expands; if not, says why.
[[nodiscard]] bool expands_weight(const tern_tensor_desc& weight, std::string& reason);
[[nodiscard]] PackedWeight packed_weight(const TensorView& weight);
// "<stem>_<packing>": the kernel of a packing, as EACH_PACKING_* of cu/packing.cuh name them.
[[nodiscard]] std::string kernel_of_packing(const char* stem, tern_packing packing);

// Expanding a part of a weight, which may also lie as numbers: rows x columns from the given first ones on, into memory
// with the given strides in elements.
struct Expansion {
  std::int64_t first_row = 0, rows = 0;
  std::int64_t first_column = 0, columns = 0;  // both multiples of 16 where the weight is quantised
  // Rows come in parts of so many, each of which begins so many rows of the weight, and so many elements of the result,
  // after the one before; 0: there's one part.
  std::int64_t part_rows = 0, part_step = 0, out_part = 0;
  Place out = 0;
  tern_dtype out_dtype = TERN_F32;
  std::int64_t out_row = 0, out_column = 1;
};
// The kernel's name, for KernelEntry::functions; `call` is of it.
[[nodiscard]] std::string expand_function(tern_packing packing);
void expand_weight(Call call, const TensorView& weight, const Expansion& part);

}  // namespace tern::cuda
