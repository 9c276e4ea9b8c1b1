// Quantising a weight some rows at a time, so that its numbers are never all in memory in fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "models/quantise.h"

namespace tern::models {

// A weight [matrices x rows, columns], whose matrices are those of experts: no block of fp8 is of two.
[[nodiscard]] TensorDesc quantised_desc_of(const QuantiseOptions& options, std::int64_t matrices, std::int64_t rows,
                                           std::int64_t columns);

// Gives rows [first, first + count).
using RowValues = std::function<std::vector<float>(std::int64_t first, std::int64_t count)>;
// The planes of such a weight, one after the other; of one matrix what quantised_planes makes of all its rows. Matrices
// are read one by one, or some together where they're small.
[[nodiscard]] std::vector<std::byte> quantised_planes_of(const QuantiseOptions& options, const TensorDesc& desc,
                                                         std::int64_t matrices, const RowValues& values);

}  // namespace tern::models
