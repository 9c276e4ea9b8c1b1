// lion: one step of Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023), in place:
//   g = grad grad_scale; param = keep param - lr sign(beta1 m + one_minus_beta1 g); m = beta2 m + one_minus_beta2 g.
// keep is 1 - lr weight_decay, and sign(0) is 0.
//
// Shapes: param, m, grad alike, any rank; hyper [7] f32 on the device: lr, keep, beta1, one_minus_beta1, beta2,
//   one_minus_beta2, grad_scale (the clipping factor): one captured program serves every step.
// Dtypes: param, m fp32 (masters); grad float.
// Aliasing: none beyond the states. Determinism: always the same bits on one device.
// Backward: none. Decomposition: none.
// Tolerance: m: u32 growth(1) (|beta2 m| + 2 |one_minus_beta2 g|); param: u32 growth(1) (|keep param| + |lr|), and any of
// the three signs where the sum in it lies within its own roundings of 0.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct LionState {
  Value param;
  Value m;
};
[[nodiscard]] LionState lion(Emitter& emitter, const LionState& state, Value grad, Value hyper,
                             std::uint32_t needs = 0);

}  // namespace tern::ops
