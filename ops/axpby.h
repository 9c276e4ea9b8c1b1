// axpby: out = a x + b y; without y: out = a x.
//
// Shapes: all alike, any rank; strides are free, and an input's stride of 0 broadcasts it.
// Dtypes: float, each its own; computed in fp32, rounded once.
// Accumulate: out + a x + b y.
// Aliasing: out may be x or y where dtype and strides are the same.
// Determinism: always the same bits on one device. Row invariant.
// Backward: dx = a dout, dy = b dout, added to what is there. A broadcast input (stride 0): for each place that it was
//   read at.
// Decomposition: none.
// Tolerance: u(out) |out| + u32 growth(1) (|a x| + |b y|).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct AxpbyOptions {
  float a = 1.0F;
  float b = 1.0F;
  tern_dtype out = TERN_F32;
  Value into;  // adds to it
  std::uint32_t needs = 0;
};
// `y` may be absent.
[[nodiscard]] Value axpby(Emitter& emitter, Value x, Value y, const AxpbyOptions& options);

}  // namespace tern::ops
