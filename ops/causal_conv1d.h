// causal_conv1d: y[t, c] = bias[c] + sum over j = 0 .. taps of weight[c, j] x[t - taps + j, c], t and t - taps + j in
// one sequence: a convolution of each channel over the rows before it (Gu and Dao, "Mamba", 2023).
//
// Shapes: x, y [rows, channels]; weight [channels, taps + 1], the last of the row itself, as torch.nn.Conv1d with
// groups
//   = channels has them; bias [channels]; cu_seqlens [sequences + 1] i32 (also in host_args), rising, first 0; state
//   [num_seats, taps, channels], the last `taps` rows of the sequence, oldest first; kv_lens, seats [sequences] i32.
//   See ops/recurrent_shared.h for what a state does. Rows before a sequence's first are 0. Rows outside of every
//   sequence: y = 0.
// Dtypes: float; sums are fp32; x is rounded once to the state's dtype. Dynamic: rows, sequences.
// Aliasing: none beyond the state. Determinism: always the same bits on one device: those of a sequence depend on it
//   alone, and not on how it is cut into steps where the state is of x's dtype or fp32.
// Backward: causal_conv1d_backward, where there is no state. Decomposition: none.
// Tolerance: u(y) |y| + u32 growth(taps + 2) (sum |weight x| + |bias|); of the state: none: exactly the rounded value.
//
// causal_conv1d_backward: dx[s, c] = sum over j of weight[c, j] dy[s + taps - j, c]; dweight[c, j] = sum over t of
//   dy[t, c] x[t - taps + j, c]; dbias[c] = sum over t of dy[t, c]; rows of one sequence each, and of no sequence: 0.
//
// Shapes: as above; dweight and dbias are fp32 and may accumulate. Dtypes, aliasing, determinism: as above; sums over
// rows
//   in a fixed order where asked. Backward: none. Decomposition: accumulating: into fp32, then axpby.
// Tolerance: u(dx) |dx| + u32 growth(taps + 1) sum |weight dy|; dweight: u32 growth(rows) sum |dy x|; dbias likewise.
#pragma once

#include "ops/emit.h"
#include "ops/recurrent_shared.h"

namespace tern::ops {

struct CausalConv1dOptions {
  Value bias;                   // [channels]; may be absent
  std::int32_t max_seqlen = 0;  // no sequence has more rows
  RecurrentState before;        // may be absent
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
struct CausalConv1dOut {
  Value y;
  Value state;  // the next version; absent where there is none
};
[[nodiscard]] CausalConv1dOut causal_conv1d(Emitter& emitter, Value x, Value weight, Value cu_seqlens,
                                            const CausalConv1dOptions& options);

}  // namespace tern::ops
