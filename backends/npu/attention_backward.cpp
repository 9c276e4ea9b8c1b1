// The gradient of attention in the contract's own steps: probabilities again from lse, a tile of rows at a time; dk and
// dv gather in fp32.
#include <limits>

#include "backends/npu/attention_forward.h"
#include "backends/npu/attention_shape.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

struct Inputs {
  View dout, q, k, v, out, lse, mask;
  View dq, dk, dv;
};

// Sums over the query heads that read a key head: [kv_heads, group, keys, width] to [kv_heads, 1, keys, width].
void gather(Algebra& algebra, const View& parts, const View& into) {
  algebra.add(into, parts.dim(1) == 1 ? parts : algebra.sum(parts, 1), into);
}

void run_tile(Algebra& algebra, const tern_attention_attrs& attrs, const Inputs& in, const Tile& tile, const View& k,
              const View& v, const View& dk, const View& dv) {
  Composer& c = algebra.composer();
  const std::int64_t kv_heads = k.dim(0);
  const auto rows = [&](const View& all) { return by_heads(c.f32(all.slice(0, 0, tile.rows)), kv_heads); };
  const View q = rows(in.q), dout = rows(in.dout), out = rows(in.out);
  const View hidden = hidden_keys(algebra, attrs, tile, in.mask);
  const Scores s = scores(algebra, attrs, q, k, hidden, true);
  // A row that sees nothing has lse -infinity and hidden scores alone: any finite number makes its p 0.
  const View lse = algebra.at_least(numbers_by_heads(in.lse, kv_heads), -std::numeric_limits<float>::max());
  const View& p = s.values;
  algebra.sub(p, lse, p);
  algebra.exp(p, p);
  gather(algebra, algebra.product(p.transposed(2, 3), dout), dv);
  const View ds = algebra.product(dout, v.transposed(2, 3));
  const View delta = algebra.sum(algebra.mul(dout, out), 3);
  algebra.sub(ds, delta, ds);
  algebra.mul(ds, p, ds);
  if (s.slope.present()) algebra.mul(ds, s.slope, ds);
  algebra.muls(ds, attrs.scale, ds);
  const View dq = by_heads(in.dq, kv_heads);
  if (dq.dtype == ACL_FLOAT) {
    algebra.product(ds, k, dq);
  } else {
    c.copy(dq, algebra.product(ds, k));
  }
  gather(algebra, algebra.product(ds.transposed(2, 3), q), dk);
}

void compose(Composer& c) {
  // The two have the same members.
  const auto& given = c.attrs<tern_attention_backward_attrs>();
  const tern_attention_attrs attrs{given.scale,        given.softcap,      given.causal,       given.window,
                                   given.max_seqlen_q, given.max_seqlen_k, given.window_right, given.chunk};
  if (c.present(TERN_ATTENTION_BACKWARD_SINKS)) c.refuse("the gradient of sinks is sink_scale_backward's");
  Algebra algebra(c);
  const Inputs all{c.arg(TERN_ATTENTION_BACKWARD_DOUT), c.arg(TERN_ATTENTION_BACKWARD_Q),
                   c.arg(TERN_ATTENTION_BACKWARD_K),    c.arg(TERN_ATTENTION_BACKWARD_V),
                   c.arg(TERN_ATTENTION_BACKWARD_OUT),  c.arg(TERN_ATTENTION_BACKWARD_LSE),
                   c.arg(TERN_ATTENTION_BACKWARD_MASK), c.arg(TERN_ATTENTION_BACKWARD_DQ),
                   c.arg(TERN_ATTENTION_BACKWARD_DK),   c.arg(TERN_ATTENTION_BACKWARD_DV)};
  for (const View& gradient : {all.dq, all.dk, all.dv}) c.zero(gradient);
  const std::int64_t kv_heads = all.k.dim(1);
  const std::int64_t most = tile_rows(all.q.dim(1), std::max(1, attrs.max_seqlen_k), attrs.max_seqlen_q);
  for (const Sequence& sequence : sequences(c, attrs, TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q, all.q.dim(0),
                                            TERN_ATTENTION_BACKWARD_CU_SEQLENS_K, all.k.dim(0))) {
    if (sequence.rows == 0 || sequence.keys == 0) continue;
    const std::int64_t mark = c.mark();
    const auto keys_of = [&](const View& view) { return view.slice(0, sequence.key, sequence.keys); };
    const View k = c.f32(keys_of(all.k)), v = c.f32(keys_of(all.v));
    // Sums over tiles: in the outputs themselves where they are fp32.
    const auto sums = [&](const View& gradient) {
      const View own = keys_of(gradient);
      if (own.dtype == ACL_FLOAT) return own;
      const View room = c.temp(ACL_FLOAT, own.shape);
      c.zero(room);
      return room;
    };
    const View dk = sums(all.dk), dv = sums(all.dv);
    for (const Tile& tile : tiles(c, attrs, sequence.rows, sequence.keys, most)) {
      if (tile.keys == 0) continue;
      const std::int64_t inner = c.mark();
      const auto rows_of = [&](const View& view) { return view.slice(0, sequence.row + tile.row, tile.rows); };
      const auto part = [&](const View& view) { return by_heads(view.slice(0, tile.key, tile.keys), kv_heads); };
      Inputs in{
          rows_of(all.dout), rows_of(all.q), {}, {}, rows_of(all.out), rows_of(all.lse), {}, rows_of(all.dq), {}, {}};
      if (all.mask.present()) in.mask = rows_of(all.mask).slice(1, tile.key, tile.keys);
      run_tile(algebra, attrs, in, tile, part(k), part(v), part(dk), part(dv));
      c.rewind(inner);
    }
    if (all.dk.dtype != ACL_FLOAT) c.copy(keys_of(all.dk), dk);
    if (all.dv.dtype != ACL_FLOAT) c.copy(keys_of(all.dv), dv);
    c.rewind(mark);
  }
}

constexpr KernelEntry kEntries[] = {{TERN_OP_ATTENTION_BACKWARD, "fused", compose_fused_attention_backward, false},
                                    {TERN_OP_ATTENTION_BACKWARD, "composed", compose, false}};

}  // namespace

KernelList attention_backward_kernels() { return kEntries; }

}  // namespace tern::npu
