// selective_scan: linear attention whose state S [state_size, head_dim] of each head forgets at a rate that the row
// says. For each row of a sequence:
//
//   S = exp(dt a) S + b (dt x)^T;  out = S^T c + d x.
//
// Dao and Gu, "Transformers are SSMs", ICML 2024: Mamba-2, whose A is a scalar for each head. dt is what its softplus
// gave. A device may compute it row by row or in chunks (the paper's section 6).
//
// Shapes: x, out [rows, heads, head_dim]; dt [rows, heads] f32; a [heads] f32; b, c [rows, groups, state_size]; d
//   [heads]; cu_seqlens [sequences + 1] i32 (also in host_args), rising, first 0; state [num_seats, heads, state_size,
//   head_dim] f32; kv_lens, seats [sequences] i32. heads is a multiple of groups; head h reads b and c of group h /
//   (heads / groups). d absent: 0. See ops/recurrent_shared.h for what a state does. Rows outside of every sequence:
//   out = 0.
// Values: dt >= 0 and a <= 0, so that no row makes an error grow.
// Dtypes: float; S, sums and operands of products are fp32: what a device multiplies in 16 bits it splits into two, as
//   a rounding of S would come back in every row after it. A sum of dt a over up to 64 rows may be the argument of one
//   exponential. Sums over all of S are sums of those over one of its dimensions.
// Dynamic: rows, sequences. Aliasing: none beyond the state.
// Determinism: always the same bits on one device: those of a sequence depend on it alone.
// Backward: selective_scan_backward, where there is no state. Decomposition: none.
// Tolerance: the error of each element of S is carried through the rows in ops/ref/selective_scan.cpp: a row adds a
//   rounding of what S then sums up in absolute terms, and what came before shrinks by exp(dt a).
//
// selective_scan_backward: with G the gradient of S after a row, from the last row to the first:
//
//   G = G + c dout^T;  dc = S dout;  p = G^T b;  dx = dt p + d dout;  db = dt G x;
//   e = sum of G * (exp(dt a) S_before);  ddt = p . x + a e;  G = exp(dt a) G.
//
// db and dc are sums over the heads of a group, da = sum of dt e and dd = sum of dout . x over the rows of a head.
//
// Shapes: as above; dx, db, dc as x, b, c; ddt [rows, heads] f32; da and dd [heads] f32, which may be absent and may
// accumulate. Rows outside of every sequence get 0. States within a sequence are computed again from x, dt, a and b.
// Dtypes, aliasing, determinism: as above; sums over rows in a fixed order where asked. Backward: none.
// Decomposition: accumulating: into fp32, then axpby.
// Tolerance: that of G carried as that of S, and both propagated, in ops/ref/selective_scan.cpp.
#pragma once

#include "ops/emit.h"
#include "ops/recurrent_shared.h"

namespace tern::ops {

struct SelectiveScanInputs {
  Value x;           // [rows, heads, head_dim]
  Value dt;          // [rows, heads] f32
  Value a;           // [heads] f32
  Value b;           // [rows, groups, state_size]
  Value c;           // [rows, groups, state_size]
  Value d;           // [heads]; may be absent
  Value cu_seqlens;  // [sequences + 1] i32
};
struct SelectiveScanOptions {
  std::int32_t max_seqlen = 0;  // no sequence has more rows
  RecurrentState before;        // may be absent
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
struct SelectiveScanOut {
  Value out;
  Value state;  // the next version; absent where there is none
};
[[nodiscard]] SelectiveScanOut selective_scan(Emitter& emitter, const SelectiveScanInputs& inputs,
                                              const SelectiveScanOptions& options);

}  // namespace tern::ops
