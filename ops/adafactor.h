// adafactor: one step of Adafactor (Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost",
// ICML 2018) as transformers takes it, in place:
//   g = grad grad_scale; q = g^2 + eps1;
//   of a matrix: row = beta2 row + rest2 mean over columns of q, col = beta2 col + rest2 mean over rows of q,
//     u = g / sqrt(row / (mean of row)) / sqrt(col); of anything else: v = beta2 v + rest2 q, u = g / sqrt(v);
//   u = u a / max(1, rms(u) / clip), a = lr max(eps2, rms(param)) where scale_parameter is 1, lr where it is 0;
//   m = beta1 m + rest1 u, u = m where there is an m; param = param (1 - weight_decay a) - u.
// rms is over the whole tensor; the means of a stack of matrices are each matrix's own.
//
// Shapes: param, grad, m alike, any rank; a matrix, or a stack of them, has row [..., rows] and col [..., columns], anything
//   else v of param's shape. hyper [11] f32 on the device: lr, beta2, rest2, eps1, eps2, clip, beta1, rest1, weight_decay,
//   scale_parameter, grad_scale: one captured program serves every step.
// Dtypes: all fp32 but grad, float. All contiguous.
// Aliasing: none beyond the states. Determinism: a fixed order of all sums.
// Backward: none. Decomposition: none.
// Tolerance: row, col, v: u32 growth(terms of the mean) 3 (the new value, all terms of which are positive); a step: u32
// growth(elements) 6 |u a|, as each of its roots and means is off by half of its own growth at most; m, param: that, and
// |beta1 m|, |param| (1 + 3 weight_decay a) with growth(elements) for the a in it.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct AdafactorState {
  Value param;
  Value row;  // of a matrix; else absent
  Value col;
  Value v;  // of anything else
  Value m;  // absent: no momentum
};
[[nodiscard]] AdafactorState adafactor(Emitter& emitter, const AdafactorState& state, Value grad, Value hyper,
                                       std::uint32_t needs = 0);

}  // namespace tern::ops
