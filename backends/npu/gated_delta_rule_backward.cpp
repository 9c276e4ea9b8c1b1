// The chunks of delta_chunk.h backwards: states at the chunks' begins are computed again first.
#include "backends/npu/attention_shape.h"
#include "backends/npu/delta_chunk.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

struct Pass {
  Algebra& algebra;
  const DeltaInputs& in;
  double scale;
  View carry;  // the gradient by the state behind the chunk; becomes that by the state before it

  void run(const View& before, std::int64_t row, std::int64_t rows);
};

void Pass::run(const View& before, std::int64_t row, std::int64_t rows) {
  Composer& c = algebra.composer();
  const auto given = [&](int arg) { return c.arg(arg).slice(0, row, rows); };
  const DeltaChunk chunk = delta_chunk(algebra, in, before, {row, rows, 0}, false);
  const Decays& decay = chunk.decay;
  const View dout = algebra.muls(by_heads(c.f32(given(TERN_GATED_DELTA_RULE_BACKWARD_DOUT)), in.k_heads), scale);
  const View scores = algebra.product(chunk.q, chunk.k.transposed(2, 3));  // [k_heads, 1, rows, rows]
  const View p = algebra.mul(decay.between, scores);

  // By w, and through the solution by what it was solved from.
  const View leaving = algebra.mul(algebra.product(chunk.k, carry), decay.to_end);
  const View by_w = algebra.product(p.transposed(2, 3), dout);
  algebra.add(by_w, leaving, by_w);
  const View by_target = algebra.product(chunk.solution.transposed(2, 3), by_w);
  const View by_a = algebra.product(by_target, chunk.w.transposed(2, 3));
  algebra.muls(by_a, -1.0, by_a);
  algebra.mul(by_a, chunk.strict, by_a);  // times D, below the diagonal

  const View by_v = algebra.mul(by_target, chunk.beta);
  const View by_read = algebra.mul(by_v, decay.from_start);  // minus the gradient by k S
  const View read = algebra.mul(dout, decay.from_start);     // gradient by q S
  const View pairs = algebra.product(dout, chunk.w.transposed(2, 3));
  const View by_scores = algebra.mul(pairs, decay.between);
  const View weighted = algebra.mul(by_a, chunk.beta);  // gradient by k k^T

  const View by_beta = algebra.sum(algebra.mul(by_a, chunk.keys), 3);
  algebra.add(by_beta, algebra.sum(algebra.mul(by_target, chunk.error), 3), by_beta);

  DecayPaths paths;
  paths.inside = algebra.mul(pairs, p);
  algebra.add(paths.inside, algebra.mul(weighted, chunk.keys), paths.inside);
  paths.from_start = algebra.sum(algebra.mul(read, algebra.product(chunk.q, before)), 3);
  algebra.sub(paths.from_start, algebra.sum(algebra.mul(by_read, chunk.read), 3), paths.from_start);
  paths.to_end = algebra.sum(algebra.mul(leaving, chunk.w), 3);
  paths.through = algebra.mul(algebra.sum(algebra.sum(algebra.mul(before, carry), 3), 2), decay.whole);
  const View by_decay = decay_gradient(algebra, triangles(algebra, rows), paths);

  const View by_q = algebra.product(by_scores, chunk.k);
  algebra.add(by_q, algebra.product(read, before.transposed(2, 3)), by_q);
  const View by_k = algebra.product(by_scores.transposed(2, 3), chunk.q);
  algebra.add(by_k, algebra.product(algebra.add(weighted, weighted.transposed(2, 3)), chunk.k), by_k);
  algebra.sub(by_k, algebra.product(by_read, before.transposed(2, 3)), by_k);
  algebra.add(by_k, algebra.product(algebra.mul(chunk.w, decay.to_end), carry.transposed(2, 3)), by_k);

  c.copy(by_heads(given(TERN_GATED_DELTA_RULE_BACKWARD_DQ), in.k_heads), group_sum(algebra, by_q));
  c.copy(by_heads(given(TERN_GATED_DELTA_RULE_BACKWARD_DK), in.k_heads), group_sum(algebra, by_k));
  c.copy(by_heads(given(TERN_GATED_DELTA_RULE_BACKWARD_DV), in.k_heads), by_v);
  c.copy(numbers_by_heads(given(TERN_GATED_DELTA_RULE_BACKWARD_DDECAY), in.k_heads), by_decay);
  c.copy(numbers_by_heads(given(TERN_GATED_DELTA_RULE_BACKWARD_DBETA), in.k_heads), by_beta);

  algebra.mul(carry, decay.whole, carry);
  algebra.add(carry, algebra.product(chunk.q.transposed(2, 3), read), carry);
  algebra.sub(carry, algebra.product(chunk.k.transposed(2, 3), by_read), carry);
}

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_gated_delta_rule_backward_attrs>();
  Algebra algebra(c);
  const DeltaInputs in = delta_inputs(c, TERN_GATED_DELTA_RULE_BACKWARD_Q);
  for (int arg = TERN_GATED_DELTA_RULE_BACKWARD_DQ; arg <= TERN_GATED_DELTA_RULE_BACKWARD_DBETA; ++arg) {
    c.zero(c.arg(arg));
  }
  for (const Rows& rows : row_sequences(c, TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS, in.v.dim(0), attrs.max_seqlen)) {
    const std::int64_t mark = c.mark(), chunks = (rows.count + kChunk - 1) / kChunk;
    const View kept = delta_states(c, in, chunks), carry = delta_state(delta_states(c, in, 1), 0);
    const auto count = [&](std::int64_t chunk) { return std::min(kChunk, rows.count - chunk * kChunk); };
    c.zero(delta_state(kept, 0));
    for (std::int64_t chunk = 0; chunk + 1 < chunks; ++chunk) {
      const std::int64_t inner = c.mark();
      const View next = delta_state(kept, chunk + 1);
      c.copy(next, delta_state(kept, chunk));
      const Rows part{rows.first + chunk * kChunk, count(chunk), rows.sequence};
      advance(algebra, delta_chunk(algebra, in, next, part, false), next);
      c.rewind(inner);
    }
    c.zero(carry);
    Pass pass{algebra, in, attrs.scale, carry};
    for (std::int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
      const std::int64_t inner = c.mark();
      pass.run(delta_state(kept, chunk), rows.first + chunk * kChunk, count(chunk));
      c.rewind(inner);
    }
    c.rewind(mark);
  }
}

constexpr KernelEntry kEntries[] = {{TERN_OP_GATED_DELTA_RULE_BACKWARD, "chunks", compose, false}};

}  // namespace

KernelList gated_delta_rule_backward_kernels() { return kEntries; }

}  // namespace tern::npu
