// One chunk of the gated delta rule, forward: what both directions compute ("Gated Delta Networks", section 3.3).
//
// With g the sums of decays, D[i, j] = exp(g[i] - g[j]) for j <= i, S the state before the chunk and w = beta u:
//   (I + A) W = beta (V - exp(g) K S), A[i, j] = beta[i] D[i, j] k[i] . k[j] for j < i;
//   out = scale (exp(g) Q S + (D * Q K^T) W); the state behind = exp(g[last]) S + K^T (exp(g[last] - g) W).
#pragma once

#include "backends/npu/recurrent.h"

namespace tern::npu {

struct DeltaInputs {
  View q, k, v, decay, beta;
  std::int64_t k_heads = 1;
};

// By heads: [k_heads, heads / k_heads, rows, ...]; of q and k, one for all heads of a group.
struct DeltaChunk {
  View q, k, v, beta;
  Decays decay;
  View strict;    // D below its diagonal [.., rows, rows]
  View keys;      // k k^T [k_heads, 1, rows, rows]
  View solution;  // (I + A)^-1 [.., rows, rows]
  View error;     // v - exp(g) k S [.., rows, value_dim]
  View read;      // k S [.., rows, value_dim]
  View w;         // [.., rows, value_dim]
  View poison;    // 0, or NaN from the first row on that has one; absent where nobody asked to isolate it
};

// q, k, v, decay and beta follow each other from argument `q` on.
[[nodiscard]] DeltaInputs delta_inputs(Composer& composer, int q);
// `state` [k_heads, heads / k_heads, key_dim, value_dim]. `isolate`: a NaN shows in no row before its own.
[[nodiscard]] DeltaChunk delta_chunk(Algebra& algebra, const DeltaInputs& in, const View& state, const Rows& rows,
                                     bool isolate);
// The state moves to the chunk's end.
void advance(Algebra& algebra, const DeltaChunk& chunk, const View& state);
// Room for states, [count, k_heads, heads / k_heads, key_dim, value_dim], and one of them.
[[nodiscard]] View delta_states(Composer& composer, const DeltaInputs& in, std::int64_t count);
[[nodiscard]] View delta_state(const View& states, std::int64_t index);

}  // namespace tern::npu
