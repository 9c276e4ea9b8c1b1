#include "backends/npu/delta_chunk.h"

#include <bit>

#include "backends/npu/attention_shape.h"

namespace tern::npu {
namespace {

// Blocks [size, size] of a square's diagonal, moved by `down` rows: [.., blocks, size, size]; blocks lie 2 size apart.
View diagonal_blocks(const View& square, std::int64_t size, std::int64_t down, std::int64_t right) {
  const std::int64_t side = square.dim(3);
  View out = square;
  out.shape = {square.dim(0), square.dim(1), side / (2 * size), size, size};
  out.strides = {square.strides[0], square.strides[1], 2 * size * (square.strides[2] + square.strides[3]),
                 square.strides[2], square.strides[3]};
  out.offset += (down * square.strides[2] + right * square.strides[3]) * acl_bytes(square.dtype);
  return out;
}

// (I + a)^-1 for a below its diagonal, by blocks that double: the inverse of [P 0; Q R] has -R^-1 Q P^-1 below. Sums of
// powers would be shorter, but they cancel where keys are alike.
View solve(Algebra& algebra, const View& a) {
  Composer& c = algebra.composer();
  const std::int64_t rows = a.dim(2);
  const auto side = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  const View padded = c.temp(ACL_FLOAT, {a.dim(0), a.dim(1), side, side});
  const View out = c.temp(ACL_FLOAT, padded.shape);
  c.zero(padded);
  c.copy(padded.slice(2, 0, rows).slice(3, 0, rows), a);
  c.zero(out);
  View diagonal = out;
  diagonal.shape = {out.dim(0), out.dim(1), side};
  diagonal.strides = {out.strides[0], out.strides[1], side + 1};
  c.fill(diagonal, 1.0);
  for (std::int64_t size = 1; size < side; size *= 2) {
    const std::int64_t mark = c.mark();
    const View upper = diagonal_blocks(out, size, 0, 0), lower = diagonal_blocks(out, size, size, size);
    const View between = algebra.product(diagonal_blocks(padded, size, size, 0), upper);
    const View part = algebra.product(lower, between);
    algebra.muls(part, -1.0, part);
    c.copy(diagonal_blocks(out, size, size, 0), part);
    c.rewind(mark);
  }
  return out.slice(2, 0, rows).slice(3, 0, rows);
}

}  // namespace

DeltaInputs delta_inputs(Composer& c, int q) {
  return {c.arg(q), c.arg(q + 1), c.arg(q + 2), c.arg(q + 3), c.arg(q + 4), c.arg(q).dim(1)};
}

DeltaChunk delta_chunk(Algebra& algebra, const DeltaInputs& in, const View& state, const Rows& given, bool isolate) {
  Composer& c = algebra.composer();
  const std::int64_t row = given.first, rows = given.count;
  const auto by_key = [&](const View& view) { return by_heads(c.f32(view.slice(0, row, rows)), in.k_heads); };
  const auto column = [&](const View& view) { return head_column(algebra, view.slice(0, row, rows), in.k_heads); };
  DeltaChunk out;
  out.q = by_key(in.q);
  out.k = by_key(in.k);
  out.v = by_key(in.v);
  if (isolate) out.poison = take_poison(algebra, out.v, out.k);
  out.beta = column(in.beta);
  out.decay = decays(algebra, column(in.decay));
  out.strict = algebra.mul(out.decay.between, triangles(algebra, rows).earlier);
  out.keys = algebra.product(out.k, out.k.transposed(2, 3));
  const View a = algebra.mul(out.keys, out.strict);
  algebra.mul(a, out.beta, a);
  out.solution = solve(algebra, a);
  out.read = algebra.product(out.k, state);
  out.error = algebra.mul(out.read, out.decay.from_start);
  algebra.sub(out.v, out.error, out.error);
  out.w = algebra.product(out.solution, algebra.mul(out.error, out.beta));
  return out;
}

void advance(Algebra& algebra, const DeltaChunk& chunk, const View& state) {
  const View arriving = algebra.product(chunk.k.transposed(2, 3), algebra.mul(chunk.w, chunk.decay.to_end));
  algebra.mul(state, chunk.decay.whole, state);
  algebra.add(state, arriving, state);
  if (chunk.poison.present()) algebra.add(state, chunk.poison.slice(2, chunk.poison.dim(2) - 1, 1), state);
}

View delta_states(Composer& c, const DeltaInputs& in, std::int64_t count) {
  return c.temp(ACL_FLOAT, {count, in.k_heads, in.v.dim(1) / in.k_heads, in.k.dim(2), in.v.dim(2)});
}

View delta_state(const View& states, std::int64_t index) {
  return states.slice(0, index, 1).reshaped({states.dim(1), states.dim(2), states.dim(3), states.dim(4)});
}

}  // namespace tern::npu
