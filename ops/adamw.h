// adamw: one step of AdamW (Loshchilov and Hutter, ICLR 2019), in place:
//   g = grad grad_scale; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
//   param = param (1 - lr weight_decay) - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
//
// Shapes: param, m, v, grad, copy alike, any rank; hyper [8] f32 on the device: lr, beta1, beta2, eps, weight_decay,
//   1 - beta1^t, 1 - beta2^t, grad_scale (the clipping factor): one captured program serves every step.
// Dtypes: param, m, v fp32 (masters); grad float; copy, param in its storage dtype, rounded once.
// Aliasing: none beyond the states. Determinism: always the same bits on one device.
// Backward: none. Decomposition: the copy by cast_copy.
// Tolerance: m: u32 growth(1) (|beta1 m| + 2 |(1 - beta1) g|); v: 2 |v|; param: |param| (1 + 2 lr decay) + 6 |step| +
// the
//   step's share of m's.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct AdamwState {
  Value param;
  Value m;
  Value v;
  Value copy;  // absent unless asked for
};
// `copy` gives param in that dtype; TERN_F32 asks for none, as param is that.
[[nodiscard]] AdamwState adamw(Emitter& emitter, const AdamwState& state, Value grad, Value hyper,
                               tern_dtype copy = TERN_F32, std::uint32_t needs = 0);

}  // namespace tern::ops
