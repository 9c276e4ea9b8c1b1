// act_mul: y = act(min(gate, limit)) * (clamp(up, -limit, limit) + up_offset), the gated MLP (Shazeer, "GLU Variants
// Improve Transformer", 2020); without a limit (0) nothing is clamped. gpt-oss (2025) has quick_gelu, 7 and 1.
//
// Shapes: gate, up, y [rows, width]; gate and up may be two halves of one tensor (strides).
// kind: tern_act: silu x sigmoid(x); gelu_tanh; gelu_erf; sigmoid; quick_gelu x sigmoid(1.702 x).
// Dtypes: float; computed in fp32, rounded once. exp, tanh and erf are within 4 ulp of fp32.
// Aliasing: y may be gate or up where dtype and strides are the same.
// Determinism: always the same bits on one device. Row invariant.
// Backward: act_mul_backward. Decomposition: none.
// Tolerance: u(y) |y| + u32 growth(1) (|up| + |up_offset|) (error of act + |act|): the error of silu is |x s| (8 + |x|
//   (1 - s)), that of gelu is taken absolutely, as 1 + tanh cancels.
//
// act_mul_backward: with gate and up clamped as above: dgate = dy (up + up_offset) act'(gate), 0 where gate > limit;
// dup =
//   dy act(gate), 0 where |up| > limit.
//
// Shapes: all [rows, width]. Dtypes, determinism: as above. Aliasing: dgate may be gate, dup may be up or dy.
// Backward: none. Decomposition: none. Tolerance: as above, with the error of act'.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct ActMulOptions {
  tern_act kind = TERN_ACT_SILU;
  float limit = 0.0F;  // 0: none
  float up_offset = 0.0F;
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
[[nodiscard]] Value act_mul(Emitter& emitter, Value gate, Value up, const ActMulOptions& options);

}  // namespace tern::ops
