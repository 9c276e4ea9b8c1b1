// act: y = act(x), an activation by itself: the gates of recurrent layers, and MLPs without a gate.
//
// Shapes: x, y alike. kind: tern_act: those of act_mul (ops/act_mul.h), softplus log(1 + exp(x)), exp.
// Dtypes: float; computed in fp32, rounded once. exp, log, tanh and erf are within 4 ulp of fp32.
// Aliasing: y may be x where dtype and strides are the same.
// Determinism: always the same bits on one device. Row invariant.
// Backward: act_backward. Decomposition: none.
// Tolerance: u(y) |y| + u32 growth(1) (error of act + |act|), as act_mul has it; of softplus it is 8 |y| +
//   |x| t / (1 + t) for t = exp(-|x|), of exp |y| (8 + |x|).
//
// act_backward: dx = dy act'(x).
//
// Shapes: all alike. Dtypes, determinism: as above. Aliasing: dx may be dy or x. Backward: none. Decomposition: none.
// Tolerance: as above, with the error of act'.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct ActOptions {
  tern_act kind = TERN_ACT_SILU;
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
[[nodiscard]] Value act(Emitter& emitter, Value x, const ActOptions& options);

}  // namespace tern::ops
