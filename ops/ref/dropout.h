// What the oracles of ops with dropout share.
#pragma once

#include <vector>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

// What dropout multiplies each element of x [rows, width] by: 0, or 1 / (1 - rate). Without keys nothing is dropped.
[[nodiscard]] std::vector<double> dropout_factors(float rate, std::int32_t site, const Tensor& x, const Tensor& keys,
                                                  const Tensor& mask);

}  // namespace tern::ops::ref
