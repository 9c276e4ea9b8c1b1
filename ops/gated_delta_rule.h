// gated_delta_rule: linear attention whose state S [key_dim, value_dim] of each head forgets and corrects itself. For
// each row of a sequence:
//
//   S = exp(decay) S;  u = v - S^T k;  S = S + k (beta u)^T;  out = scale S^T q.
//
// Yang, Kautz and Hatamizadeh, "Gated Delta Networks", ICLR 2025. A device may compute it row by row or in chunks (the
// UT transform of the paper's section 3.3).
//
// Shapes: q, k [rows, k_heads, key_dim]; v, out [rows, heads, value_dim]; decay, beta [rows, heads] f32; cu_seqlens
//   [sequences + 1] i32 (also in host_args), rising, first 0; state [num_seats, heads, key_dim, value_dim] f32;
//   kv_lens, seats [sequences] i32. heads is a multiple of k_heads; head h reads q and k of head h / (heads / k_heads).
//   See ops/recurrent_shared.h for what a state does. Rows outside of every sequence: out = 0.
// Values: decay <= 0 and 0 <= beta |k|^2 <= 2, so that no row's step makes an error grow.
// Dtypes: float; S, sums and operands of products are fp32: what a device multiplies in 16 bits it splits into two, as
//   a rounding of S would come back in every row after it. A sum of decays over up to 64 rows may be the argument of
//   one exponential.
// Dynamic: rows, sequences. Aliasing: none beyond the state.
// Determinism: always the same bits on one device: those of a sequence depend on it alone.
// Backward: gated_delta_rule_backward, where there is no state. Decomposition: none.
// Tolerance: the error of S, a 2-norm for each of its columns, is carried through the rows in
//   ops/ref/gated_delta_rule.cpp: a row's own error is added, and what came before shrinks by
//   exp(decay) max(1, |1 - beta |k|^2|).
//
// gated_delta_rule_backward: with D the gradient of S after a row, from the last row to the first:
//
//   D = D + scale q dout^T;  dq = scale S dout;  e = beta D^T k;  dv = e;  dbeta = u . D^T k;
//   dk = D (beta u) - (exp(decay) S_before) e;  D = D - k e^T;  ddecay = sum of D * (exp(decay) S_before);
//   D = exp(decay) D.
//
// dq and dk are sums over the heads that read them.
//
// Shapes: as above; dq, dk, dv as q, k, v; ddecay, dbeta [rows, heads] f32. Rows outside of every sequence get 0.
// States within a sequence are computed again from q, k and v. Dtypes, aliasing, determinism: as above. Backward: none.
// Decomposition: none. Tolerance: that of D carried as that of S, and both propagated, in ops/ref/gated_delta_rule.cpp.
#pragma once

#include "ops/emit.h"
#include "ops/recurrent_shared.h"

namespace tern::ops {

struct GatedDeltaRuleInputs {
  Value q;           // [rows, k_heads, key_dim]
  Value k;           // [rows, k_heads, key_dim]
  Value v;           // [rows, heads, value_dim]
  Value decay;       // [rows, heads] f32
  Value beta;        // [rows, heads] f32
  Value cu_seqlens;  // [sequences + 1] i32
};
struct GatedDeltaRuleOptions {
  float scale = 1.0F;
  std::int32_t max_seqlen = 0;  // no sequence has more rows
  RecurrentState before;        // may be absent
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
struct GatedDeltaRuleOut {
  Value out;
  Value state;  // the next version; absent where there is none
};
[[nodiscard]] GatedDeltaRuleOut gated_delta_rule(Emitter& emitter, const GatedDeltaRuleInputs& inputs,
                                                 const GatedDeltaRuleOptions& options);

}  // namespace tern::ops
