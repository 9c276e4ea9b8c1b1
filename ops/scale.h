// scale: y = x * factor[0], the factor being on the device.
//
// Shapes: x and y alike, any rank; factor [1] f32.
// Dtypes: float; computed in fp32, rounded once.
// Accumulate: y + x factor.
// Aliasing: y may be x where dtype and strides are the same.
// Determinism: always the same bits on one device. Row invariant.
// Backward: dx = scale(dy, factor), added to what is there; dfactor = sum of dy x.
// Decomposition: mul by the factor broadcast with strides of 0.
// Tolerance: u(y) |y| + u32 growth(1) |x factor|.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct ScaleOptions {
  tern_dtype out = TERN_F32;
  Value into;  // adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value scale(Emitter& emitter, Value x, Value factor, const ScaleOptions& options);

}  // namespace tern::ops
