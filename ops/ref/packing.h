// Expanding quantised packings to numbers that fp32 holds: the meaning of each format, element by element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/tensor_desc.h"

namespace tern::ops::ref {

// Whether expand_packing knows the scheme's packing.
[[nodiscard]] bool packing_is_known(const tern_scheme& scheme);

// Planes of `desc` [rows, columns] -> its elements in row-major order, each rounded once to fp32. The planes are large
// enough (plane_bytes). `parts`: |scale code| + |minimum| of each, which sums that keep both apart round by; or empty.
// Throws std::invalid_argument for a packing that it does not know.
void expand_packing(const TensorDesc& desc, std::span<const std::span<const std::byte>> planes, std::span<double> out,
                    std::span<double> parts = {});

// GPTQ with sorted groups: the row of the planes that has each input; empty where they're in order.
[[nodiscard]] std::vector<std::int64_t> input_order(const TensorDesc& desc,
                                                    std::span<const std::span<const std::byte>> planes);

}  // namespace tern::ops::ref
