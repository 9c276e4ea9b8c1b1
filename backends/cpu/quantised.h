// Rows of a weight, dense or quantised, as fp32 and bf16.
#pragma once

#include "backends/cpu/planes.h"
#include "backends/cpu/walk.h"
#include "base/dtype.h"

namespace tern::cpu {

// Groups of 32 elements [first, first + groups) of a row in blocks that x15_reads, each rounded once.
void expand_groups(Target target, tern_packing packing, const std::uint8_t* row, std::int64_t first,
                   std::int64_t groups, float* dst);
// The same in bf16.
void expand_groups(Target target, tern_packing packing, const std::uint8_t* row, std::int64_t first,
                   std::int64_t groups, std::uint16_t* dst);

// Whether row_tile reads it: dense floats, blocks and planes.
[[nodiscard]] bool readable_rows(const tern_tensor_desc& desc, std::string& reason);

// n elements of a row from column `first` on, a multiple of the packing's block: in `buffer` or where they lie.
[[nodiscard]] const float* row_tile(const TileIo& io, const TensorView& view, std::int64_t row, std::int64_t first,
                                    std::int64_t n, Target target, float* buffer);

// Whether matmul_q's x, bias and y are floats that fit each other and the weight, of which a row is a number of whole
// blocks, for the forward product.
[[nodiscard]] bool fits_forward(const PlanDesc& desc, std::string& reason);

// The scales of rows [first, first + n) of a weight of int8 that has one for each: in `buffer` or where they lie.
[[nodiscard]] const float* row_scales(const TileIo& io, const QuantisedRows& w, std::int64_t first, std::int64_t n,
                                      float* buffer);

}  // namespace tern::cpu
