// Rows of a weight, dense or quantised, as fp32.
#pragma once

#include "backends/cpu/walk.h"
#include "base/dtype.h"

namespace tern::cpu {

// Whether row_tile reads it: dense floats and the GGUF packings that GemmKernels::expand knows.
[[nodiscard]] bool readable_rows(const tern_tensor_desc& desc, std::string& reason);

// n elements of a row from column `first` on, a multiple of the packing's block: in `buffer` or where they lie.
[[nodiscard]] const float* row_tile(const TileIo& io, const TensorView& view, std::int64_t row, std::int64_t first,
                                    std::int64_t n, Target target, float* buffer);

}  // namespace tern::cpu
