// act_mul: y = act(gate) * up, the gated MLP (Shazeer, "GLU Variants Improve Transformer", 2020).
//
// Shapes: gate, up, y [rows, width]; gate and up may be two halves of one tensor (strides).
// kind: tern_act: silu x sigmoid(x); gelu_tanh; gelu_erf; sigmoid.
// Dtypes: float; computed in fp32, rounded once. exp, tanh and erf are within 4 ulp of fp32.
// Aliasing: y may be gate or up where dtype and strides are the same.
// Determinism: always the same bits on one device. Row invariant.
// Backward: act_mul_backward. Decomposition: none.
// Tolerance: u(y) |y| + u32 growth(1) |up| (error of act + |act|): the error of silu is |x s| (8 + |x| (1 - s)), that
// of
//   gelu is taken absolutely, as 1 + tanh cancels.
//
// act_mul_backward: dgate = dy up act'(gate); dup = dy act(gate).
//
// Shapes: all [rows, width]. Dtypes, determinism: as above. Aliasing: dgate may be gate, dup may be up or dy.
// Backward: none. Decomposition: none. Tolerance: as above, with the error of act'.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct ActMulOptions {
  tern_act kind = TERN_ACT_SILU;
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
[[nodiscard]] Value act_mul(Emitter& emitter, Value gate, Value up, const ActMulOptions& options);

}  // namespace tern::ops
