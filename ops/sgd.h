// sgd: one step along the gradient, with or without momentum, in place:
//   g = grad_scale grad + decay param; buf = momentum buf + rest g;
//   param = keep param - lr (take_grad g + take_buf buf).
// torch.optim.SGD is keep = 1, rest = 1 - dampening and take_grad, take_buf = 1, 0 without momentum, 0, 1 with it and
// 1, momentum with Nesterov's. With keep = 0 and lr = -1 param becomes the step itself, which Muon (Jordan et al., 2024)
// goes on with.
//
// Shapes: param, buf, grad alike, any rank; hyper [8] f32 on the device: lr, keep, momentum, rest, decay, take_grad,
//   take_buf, grad_scale (the clipping factor): one captured program serves every step.
// Dtypes: param, buf fp32 (masters); grad float.
// Aliasing: none beyond the states. Determinism: always the same bits on one device.
// Backward: none. Decomposition: none.
// Tolerance: with G = |grad_scale grad| + 2 |decay param|, B = |momentum buf| + 2 |rest| G: buf: u32 growth(1) B; param:
// u32 growth(1) (|keep param| + |lr| (2 |take_grad| G + 2 |take_buf| B + |step|)).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct SgdState {
  Value param;
  Value buf;  // absent: no momentum
};
[[nodiscard]] SgdState sgd(Emitter& emitter, const SgdState& state, Value grad, Value hyper, std::uint32_t needs = 0);

}  // namespace tern::ops
