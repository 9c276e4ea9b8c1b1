// Attention in the contract's own steps: products, softmax and sums in fp32, a tile of rows at a time. It takes what
// CANN's fused call refuses: caps, masks, mixed dtypes, chips without it.
#include <limits>

#include "backends/npu/attention_forward.h"
#include "backends/npu/kernel.h"

namespace tern::npu {

namespace {

// A tile's rows and the keys that they may see, all fp32 but out.
struct Part {
  View q;               // [kv_heads, group, rows, head_dim]
  View k;               // [kv_heads, 1, keys, head_dim]
  View v;               // [kv_heads, 1, keys, value_dim]
  View hidden;          // [rows, keys] bool; absent: all is seen
  View out;             // [kv_heads, group, rows, value_dim]
  View lse;             // [kv_heads, group, rows, 1]; may be absent
  bool masked = false;  // a mask may leave a row nothing
};

void attend_part(Algebra& algebra, const tern_attention_attrs& attrs, const Part& tile) {
  const View s = scores(algebra, attrs, tile.q, tile.k, tile.hidden, false).values;
  const View top = algebra.largest(s, 3);
  // A row that sees nothing: all exponentials are 0. Scores of -infinity that it does see make NaN, as they should.
  if (tile.masked) algebra.at_least(top, -std::numeric_limits<float>::max(), top);
  algebra.sub(s, top, s);
  algebra.exp(s, s);
  const View total = algebra.sum(s, 3);
  if (tile.lse.present()) {
    const View lse = algebra.log(total);
    algebra.add(lse, top, tile.lse);
  }
  const View mixed = algebra.product(s, tile.v);
  if (tile.masked) algebra.at_least(total, std::numeric_limits<float>::min(), total);
  if (tile.out.dtype == ACL_FLOAT) {
    algebra.div(mixed, total, tile.out);
  } else {
    algebra.div(mixed, total, mixed);
    algebra.composer().copy(tile.out, mixed);
  }
}

}  // namespace

void attend(Algebra& algebra, const tern_attention_attrs& attrs, const AttentionSides& sides, const Tile& tile) {
  if (tile.keys == 0) return;
  Composer& c = algebra.composer();
  const std::int64_t mark = c.mark();
  const std::int64_t kv_heads = sides.keys.dim(1);
  const std::int64_t row = sides.first_row + tile.row, key = tile.key - sides.first_key;
  View shown;
  if (sides.mask.present()) shown = sides.mask.slice(0, row, tile.rows).slice(1, tile.key, tile.keys);
  Part part;
  part.masked = sides.mask.present();
  part.q = by_heads(c.f32(sides.q.slice(0, row, tile.rows)), kv_heads);
  part.k = by_heads(sides.keys.slice(0, key, tile.keys), kv_heads);
  part.v = by_heads(sides.values.slice(0, key, tile.keys), kv_heads);
  part.hidden = hidden_keys(algebra, attrs, tile, shown);
  part.out = by_heads(sides.out.slice(0, row, tile.rows), kv_heads);
  if (sides.lse.present()) part.lse = numbers_by_heads(sides.lse.slice(0, row, tile.rows), kv_heads);
  attend_part(algebra, attrs, part);
  c.rewind(mark);
}

namespace {

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_attention_attrs>();
  if (c.present(TERN_ATTENTION_SINKS)) c.refuse("sinks are joined afterwards, by sink_scale");
  Algebra algebra(c);
  const View q = c.arg(TERN_ATTENTION_Q), k = c.arg(TERN_ATTENTION_K), v = c.arg(TERN_ATTENTION_V);
  const View mask = c.arg(TERN_ATTENTION_MASK), out = c.arg(TERN_ATTENTION_OUT), lse = c.arg(TERN_ATTENTION_LSE);
  c.zero(out);
  if (lse.present()) c.fill(lse, -std::numeric_limits<double>::infinity());
  const std::int64_t most = tile_rows(q.dim(1), std::max(1, attrs.max_seqlen_k), attrs.max_seqlen_q);
  for (const Sequence& sequence :
       sequences(c, attrs, TERN_ATTENTION_CU_SEQLENS_Q, q.dim(0), TERN_ATTENTION_CU_SEQLENS_K, k.dim(0))) {
    if (sequence.rows == 0 || sequence.keys == 0) continue;
    const std::int64_t mark = c.mark();
    const View keys = c.f32(k.slice(0, sequence.key, sequence.keys));
    const View values = c.f32(v.slice(0, sequence.key, sequence.keys));
    for (const Tile& tile : tiles(c, attrs, sequence.rows, sequence.keys, most)) {
      attend(algebra, attrs, {q, mask, out, lse, keys, values, 0, sequence.row}, tile);
    }
    c.rewind(mark);
  }
}

constexpr KernelEntry kEntries[] = {{TERN_OP_ATTENTION, "fused", compose_fused_attention, false},
                                    {TERN_OP_ATTENTION, "composed", compose, false}};

}  // namespace

KernelList attention_kernels() { return kEntries; }

}  // namespace tern::npu
