// sink_scale: joins each head's sink to attention that was computed without one: x is its out, lse its log sum exp.
//   out = x sigmoid(lse - sink), lse_out = log(exp(lse) + exp(sink)).
// Sinks: Xiao et al., "Efficient Streaming Language Models with Attention Sinks", 2023; as a logit: gpt-oss, 2025.
//
// Shapes: x and out [rows, heads, value_dim]; lse and lse_out [rows, heads] f32; sinks [heads] f32.
// lse -inf says that the row sees no key: out = 0 and lse_out = -inf, as attention gives for it.
// Dtypes: float; computed in fp32, rounded once. Dynamic: rows. Aliasing: none.
// Determinism: always the same bits on one device. Row invariant.
// Backward: none: attention's own has the sinks in it. Decomposition: none.
// Tolerance: u(out) |out| + u32 growth(1) |out| (8 + |lse| + |sink|); of lse_out: u32 growth(1) (4 + |lse| + |sink|).
//
// sink_scale_backward: dsinks = - sum over rows exp(sink - lse) sum dout out.
// out and lse are those behind the sink. So p = exp(s - lse) and delta = sum dout out are what attention_backward takes
// them for: without sinks, but with this out and lse, it gives dq, dk and dv of attention with sinks as they are.
//
// Shapes: dout and out [rows, heads, value_dim]; lse [rows, heads] f32; sinks [heads] f32; dsinks [heads] f32, may
//   accumulate. Rows with lse -inf add nothing. Dynamic: rows; only the valid ones count.
// Dtypes: float; fp32 sums. Aliasing: none. Determinism: a fixed order where asked.
// Backward: none. Decomposition: accumulating: into fp32, then axpby.
// Tolerance: u32 growth(max(rows, value_dim)) sum exp(sink - lse) sum |dout out| (8 + |lse| + |sink|).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct SinkScaleOptions {
  bool keep_lse = true;
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
struct SinkScaleOut {
  Value out;
  Value lse;  // absent unless kept
};
[[nodiscard]] SinkScaleOut sink_scale(Emitter& emitter, Value x, Value lse, Value sinks,
                                      const SinkScaleOptions& options);

// dsinks, added to `into` where it is present.
[[nodiscard]] Value sink_scale_backward(Emitter& emitter, Value dout, Value out, Value lse, Value sinks, Value into,
                                        std::uint32_t needs);

}  // namespace tern::ops
