#include "backends/npu/attention_shape.h"
#include "backends/npu/delta_chunk.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_gated_delta_rule_attrs>();
  Algebra algebra(c);
  const DeltaInputs in = delta_inputs(c, TERN_GATED_DELTA_RULE_Q);
  const View out = c.arg(TERN_GATED_DELTA_RULE_OUT);
  const States all = states(c, TERN_GATED_DELTA_RULE_KV_LENS, TERN_GATED_DELTA_RULE_SEATS, TERN_GATED_DELTA_RULE_STATE);
  c.zero(out);
  const View state = delta_state(delta_states(c, in, 1), 0);
  for (const Rows& rows : row_sequences(c, TERN_GATED_DELTA_RULE_CU_SEQLENS, in.v.dim(0), attrs.max_seqlen)) {
    const std::int64_t mark = c.mark();
    load_state(algebra, all, rows, state);
    c.rewind(mark);
    for (std::int64_t row = 0; row < rows.count; row += kChunk) {
      const std::int64_t count = std::min(kChunk, rows.count - row);
      const DeltaChunk chunk = delta_chunk(algebra, in, state, {rows.first + row, count, rows.sequence}, true);
      const View mixed = algebra.mul(algebra.product(chunk.q, state), chunk.decay.from_start);
      const View scores = algebra.product(chunk.q, chunk.k.transposed(2, 3));
      algebra.add(mixed, algebra.product(algebra.mul(scores, chunk.decay.between), chunk.w), mixed);
      algebra.add(mixed, chunk.poison, mixed);
      algebra.muls(mixed, attrs.scale, mixed);
      c.copy(by_heads(out.slice(0, rows.first + row, count), in.k_heads), mixed);
      advance(algebra, chunk, state);
      c.rewind(mark);
    }
    store_state(algebra, all, rows, state);
    c.rewind(mark);
  }
}

constexpr KernelEntry kEntries[] = {{TERN_OP_GATED_DELTA_RULE, "chunks", compose, false}};

}  // namespace

KernelList gated_delta_rule_kernels() { return kEntries; }

}  // namespace tern::npu
