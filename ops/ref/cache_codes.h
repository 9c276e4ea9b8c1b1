// Rows of a cache in 8 bits: codes over a scale for each row of a head (ops/kv_write.h).
#pragma once

#include <span>

#include "ops/ref/tensor.h"

namespace tern::ops::ref {

// What the codes of a row are times; NaN where an element isn't finite.
[[nodiscard]] double row_scale(tern_dtype dtype, std::span<const double> row);
// The code of an element over that scale.
[[nodiscard]] double row_code(tern_dtype dtype, double element, double scale);
// Elements of codes [..., heads, dim] times scales [..., heads]; where these are absent, what is given.
[[nodiscard]] Tensor expanded(const Tensor& codes, const Tensor& scales);

}  // namespace tern::ops::ref
