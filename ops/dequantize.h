// dequantize: y = w expanded from its packing.
//
// Shapes: w [out, in], quantised or not; y alike.
// Dtypes: each element is expanded to fp32, rounded once, and then rounded to y's dtype. ops/ref/packing.h names the
//   packings and their meaning.
// Aliasing: none. Determinism: always the same bits.
// Backward: none: quantised weights are frozen. Decomposition: none.
// Tolerance: none: exactly the rounded value.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

[[nodiscard]] Value dequantize(Emitter& emitter, Value w, tern_dtype out, std::uint32_t needs = 0);

}  // namespace tern::ops
