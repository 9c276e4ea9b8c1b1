// Mamba-2's scan in chunks of 64 rows ("Transformers are SSMs", section 6): products inside of a chunk, and one state
// from chunk to chunk.
#include "backends/npu/attention_shape.h"
#include "backends/npu/kernel.h"
#include "backends/npu/recurrent.h"

namespace tern::npu {
namespace {

struct Inputs {
  View x, dt, a, b, c, d;
  std::int64_t groups = 1;
};

// One chunk, by heads: [groups, heads / groups, rows, ...].
struct Chunk {
  View x;   // [.., rows, head_dim]
  View dt;  // [.., rows, 1]
  View b;   // [groups, 1, rows, state_size]
  View c;   // likewise
  View a;   // [groups, heads / groups, 1, 1]
  View d;   // likewise; may be absent
  View dx;  // dt x
  Decays decay;
  View scores;  // c b^T with decays [.., rows, rows]
  View poison;  // 0, or NaN from the first row on that has one; absent where nobody asked to isolate it
};

View per_head(const Composer&, const View& numbers, std::int64_t groups) {
  return numbers.reshaped({groups, numbers.dim(0) / groups, 1, 1});
}

// `isolate`: a NaN shows in no row before its own.
Chunk chunk_of(Algebra& algebra, const Inputs& in, std::int64_t row, std::int64_t rows, bool isolate) {
  Composer& composer = algebra.composer();
  const auto by_group = [&](const View& view) { return by_heads(composer.f32(view.slice(0, row, rows)), in.groups); };
  Chunk out;
  out.x = by_group(in.x);
  out.b = by_group(in.b);
  out.c = by_group(in.c);
  if (isolate) out.poison = take_poison(algebra, out.x, out.b);
  out.dt = head_column(algebra, in.dt.slice(0, row, rows), in.groups);
  out.a = per_head(composer, in.a, in.groups);
  if (in.d.present()) out.d = per_head(composer, in.d, in.groups);
  out.dx = algebra.mul(out.x, out.dt);
  out.decay = decays(algebra, algebra.mul(out.dt, out.a));
  out.scores = algebra.mul(algebra.product(out.c, out.b.transposed(2, 3)), out.decay.between);
  return out;
}

// state [groups, heads / groups, state_size, head_dim] moves to the chunk's end.
void advance(Algebra& algebra, const Chunk& chunk, const View& state) {
  const View arriving = algebra.product(chunk.b.transposed(2, 3), algebra.mul(chunk.dx, chunk.decay.to_end));
  algebra.mul(state, chunk.decay.whole, state);
  algebra.add(state, arriving, state);
  if (chunk.poison.present()) algebra.add(state, chunk.poison.slice(2, chunk.poison.dim(2) - 1, 1), state);
}

Inputs inputs_of(Composer& c, int x, int b) {
  // x, dt, a, b, c and d follow each other in both ops.
  Inputs in{c.arg(x), c.arg(x + 1), c.arg(x + 2), c.arg(b), c.arg(b + 1), c.f32(c.arg(b + 2)), c.arg(b).dim(1)};
  return in;
}

View state_room(Composer& c, const Inputs& in, std::int64_t chunks) {
  return c.temp(ACL_FLOAT, {chunks, in.groups, in.x.dim(1) / in.groups, in.b.dim(2), in.x.dim(2)});
}

View one_state(const View& all, std::int64_t index) {
  return all.slice(0, index, 1).reshaped({all.dim(1), all.dim(2), all.dim(3), all.dim(4)});
}

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_selective_scan_attrs>();
  Algebra algebra(c);
  const Inputs in = inputs_of(c, TERN_SELECTIVE_SCAN_X, TERN_SELECTIVE_SCAN_B);
  const View out = c.arg(TERN_SELECTIVE_SCAN_OUT);
  const States all = states(c, TERN_SELECTIVE_SCAN_KV_LENS, TERN_SELECTIVE_SCAN_SEATS, TERN_SELECTIVE_SCAN_STATE);
  c.zero(out);
  const View state = one_state(state_room(c, in, 1), 0);
  for (const Rows& rows : row_sequences(c, TERN_SELECTIVE_SCAN_CU_SEQLENS, in.x.dim(0), attrs.max_seqlen)) {
    const std::int64_t mark = c.mark();
    load_state(algebra, all, rows, state);
    c.rewind(mark);
    for (std::int64_t row = 0; row < rows.count; row += kChunk) {
      const std::int64_t count = std::min(kChunk, rows.count - row);
      const Chunk chunk = chunk_of(algebra, in, rows.first + row, count, true);
      const View mixed = algebra.mul(algebra.product(chunk.c, state), chunk.decay.from_start);
      algebra.add(mixed, algebra.product(chunk.scores, chunk.dx), mixed);
      if (chunk.d.present()) algebra.add(mixed, algebra.mul(chunk.x, chunk.d), mixed);
      algebra.add(mixed, chunk.poison, mixed);
      c.copy(by_heads(out.slice(0, rows.first + row, count), in.groups), mixed);
      advance(algebra, chunk, state);
      c.rewind(mark);
    }
    store_state(algebra, all, rows, state);
    c.rewind(mark);
  }
}

// Sums over rows, one number a head.
struct Totals {
  View da, dd;  // [groups, heads / groups, 1, 1]; may be absent
};

// `before`: the state at the chunk's begin. `carry`: the gradient by the state at its end, which becomes that by
// `before`.
void run_backward(Algebra& algebra, const Inputs& in, const Totals& totals, const View& before, const View& carry,
                  std::int64_t row, std::int64_t rows) {
  Composer& c = algebra.composer();
  const auto given = [&](int arg) { return c.arg(arg).slice(0, row, rows); };
  const Chunk chunk = chunk_of(algebra, in, row, rows, false);
  const Decays& decay = chunk.decay;
  const View dout = by_heads(c.f32(given(TERN_SELECTIVE_SCAN_BACKWARD_DOUT)), in.groups);
  const View read = algebra.mul(dout, decay.from_start);  // gradient by what is read of the state before
  const View leaving = algebra.product(chunk.b, carry);   // b . carry [.., rows, head_dim]
  algebra.mul(leaving, decay.to_end, leaving);
  const View by_dx = algebra.product(chunk.scores.transposed(2, 3), dout);  // gradient by dt x
  algebra.add(by_dx, leaving, by_dx);
  const View pairs = algebra.product(dout, chunk.dx.transposed(2, 3));
  const View by_scores = algebra.mul(pairs, decay.between);
  const View stored = algebra.mul(chunk.dx, decay.to_end);
  View by_b = algebra.product(by_scores.transposed(2, 3), chunk.c);
  algebra.add(by_b, algebra.product(stored, carry.transposed(2, 3)), by_b);
  View by_c = algebra.product(by_scores, chunk.b);
  algebra.add(by_c, algebra.product(read, before.transposed(2, 3)), by_c);
  c.copy(by_heads(given(TERN_SELECTIVE_SCAN_BACKWARD_DB), in.groups), group_sum(algebra, by_b));
  c.copy(by_heads(given(TERN_SELECTIVE_SCAN_BACKWARD_DC), in.groups), group_sum(algebra, by_c));
  DecayPaths paths;
  paths.inside = algebra.mul(pairs, chunk.scores);
  paths.from_start = algebra.sum(algebra.mul(read, algebra.product(chunk.c, before)), 3);
  paths.to_end = algebra.sum(algebra.mul(leaving, chunk.dx), 3);
  paths.through = algebra.mul(algebra.sum(algebra.sum(algebra.mul(before, carry), 3), 2), decay.whole);
  const View e = decay_gradient(algebra, triangles(algebra, rows), paths);
  const View by_dt = algebra.sum(algebra.mul(by_dx, chunk.x), 3);
  algebra.add(by_dt, algebra.mul(e, chunk.a), by_dt);
  c.copy(numbers_by_heads(given(TERN_SELECTIVE_SCAN_BACKWARD_DDT), in.groups), by_dt);
  if (totals.da.present()) algebra.add(totals.da, algebra.sum(algebra.mul(e, chunk.dt), 2), totals.da);
  if (totals.dd.present()) {
    algebra.add(totals.dd, algebra.sum(algebra.sum(algebra.mul(dout, chunk.x), 3), 2), totals.dd);
  }
  const View by_x = algebra.mul(by_dx, chunk.dt);
  if (chunk.d.present()) algebra.add(by_x, algebra.mul(dout, chunk.d), by_x);
  c.copy(by_heads(given(TERN_SELECTIVE_SCAN_BACKWARD_DX), in.groups), by_x);
  algebra.mul(carry, decay.whole, carry);
  algebra.add(carry, algebra.product(chunk.c.transposed(2, 3), read), carry);
}

void compose_backward(Composer& c) {
  const auto& attrs = c.attrs<tern_selective_scan_backward_attrs>();
  Algebra algebra(c);
  const Inputs in = inputs_of(c, TERN_SELECTIVE_SCAN_BACKWARD_X, TERN_SELECTIVE_SCAN_BACKWARD_B);
  for (const int arg : {TERN_SELECTIVE_SCAN_BACKWARD_DX, TERN_SELECTIVE_SCAN_BACKWARD_DDT,
                        TERN_SELECTIVE_SCAN_BACKWARD_DB, TERN_SELECTIVE_SCAN_BACKWARD_DC}) {
    c.zero(c.arg(arg));
  }
  const std::int64_t heads = in.x.dim(1);
  const auto room = [&](int arg) {
    View out;
    if (!c.present(arg)) return out;
    out = c.temp(ACL_FLOAT, {in.groups, heads / in.groups, 1, 1});
    c.zero(out);
    return out;
  };
  const Totals totals{room(TERN_SELECTIVE_SCAN_BACKWARD_DA), room(TERN_SELECTIVE_SCAN_BACKWARD_DD)};
  for (const Rows& rows : row_sequences(c, TERN_SELECTIVE_SCAN_BACKWARD_CU_SEQLENS, in.x.dim(0), attrs.max_seqlen)) {
    const std::int64_t mark = c.mark();
    const std::int64_t chunks = (rows.count + kChunk - 1) / kChunk;
    const View kept = state_room(c, in, chunks), carry = one_state(state_room(c, in, 1), 0);
    const auto count = [&](std::int64_t chunk) { return std::min(kChunk, rows.count - chunk * kChunk); };
    c.zero(one_state(kept, 0));
    for (std::int64_t chunk = 0; chunk + 1 < chunks; ++chunk) {
      const std::int64_t inner = c.mark();
      const View next = one_state(kept, chunk + 1);
      c.copy(next, one_state(kept, chunk));
      advance(algebra, chunk_of(algebra, in, rows.first + chunk * kChunk, count(chunk), false), next);
      c.rewind(inner);
    }
    c.zero(carry);
    for (std::int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
      const std::int64_t inner = c.mark();
      run_backward(algebra, in, totals, one_state(kept, chunk), carry, rows.first + chunk * kChunk, count(chunk));
      c.rewind(inner);
    }
    c.rewind(mark);
  }
  if (totals.da.present()) c.finish(TERN_SELECTIVE_SCAN_BACKWARD_DA, totals.da.reshaped({heads}));
  if (totals.dd.present()) c.finish(TERN_SELECTIVE_SCAN_BACKWARD_DD, totals.dd.reshaped({heads}));
}

constexpr KernelEntry kEntries[] = {{TERN_OP_SELECTIVE_SCAN, "chunks", compose, false},
                                    {TERN_OP_SELECTIVE_SCAN_BACKWARD, "chunks", compose_backward, false}};

}  // namespace

KernelList selective_scan_kernels() { return kEntries; }

}  // namespace tern::npu
