// fill: y = value in every element. What is between y's strides stays as it is.
//
// Shapes: y any; strides are free. A gradient is made of slices: where none of them lies it is filled with 0.
// Dtypes: float; the value is rounded once.
// Aliasing: none. Determinism: always the same bits. Row invariant.
// Backward: none, as it reads nothing. Decomposition: none.
// Tolerance: none: exactly the rounded value.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct FillOptions {
  Value at;  // writes there, and `desc` is not looked at; absent: a fresh tensor
  std::uint32_t needs = 0;
};
[[nodiscard]] Value fill(Emitter& emitter, const TensorDesc& desc, float value, const FillOptions& options);

}  // namespace tern::ops
