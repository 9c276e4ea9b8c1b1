// adamw: one step of AdamW (Loshchilov and Hutter, ICLR 2019), in place:
//   g = grad grad_scale; m = beta1 m + one_minus_beta1 g; v = beta2 v + one_minus_beta2 g^2;
//   param = param (1 - lr weight_decay) - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
//
// Shapes: param, m, v, grad, copy alike, any rank; hyper [10] f32 on the device: lr, beta1, beta2,
//   one_minus_beta1, one_minus_beta2, eps, weight_decay, 1 - beta1^t, 1 - beta2^t, grad_scale (the clipping factor):
//   one captured program serves every step. The host takes the differences in fp64: 1 - 0.999 of fp32 is off by 1e-5.
// Dtypes: param, m, v fp32 (masters); grad float; copy, param in its storage dtype, rounded once.
// Aliasing: none beyond the states. Determinism: always the same bits on one device.
// Backward: none. Decomposition: the copy by cast_copy.
// Tolerance: m: u32 growth(1) (|beta1 m| + 2 |one_minus_beta1 g|); v: 2 |v|; param: |param| (1 + 2 lr decay) + 6 |step|
// + the
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
