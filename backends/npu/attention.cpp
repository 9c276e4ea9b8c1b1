// Attention in the contract's own steps: products, softmax and sums in fp32, a tile of rows at a time. It takes what
// CANN's fused call refuses: caps, masks, mixed dtypes, chips without it.
#include <limits>

#include "backends/npu/attention_forward.h"
#include "backends/npu/attention_shape.h"
#include "backends/npu/kernel.h"

namespace tern::npu {

void attend(Algebra& algebra, const tern_attention_attrs& attrs, const AttentionTile& tile) {
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

namespace {

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_attention_attrs>();
  if (c.present(TERN_ATTENTION_SINKS)) c.refuse("sinks are joined afterwards, by sink_scale");
  Algebra algebra(c);
  const View q = c.arg(TERN_ATTENTION_Q), k = c.arg(TERN_ATTENTION_K), v = c.arg(TERN_ATTENTION_V);
  const View mask = c.arg(TERN_ATTENTION_MASK), out = c.arg(TERN_ATTENTION_OUT), lse = c.arg(TERN_ATTENTION_LSE);
  const std::int64_t kv_heads = k.dim(1);
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
      if (tile.keys == 0) continue;
      const std::int64_t inner = c.mark();
      const std::int64_t row = sequence.row + tile.row;
      View shown;
      if (mask.present()) shown = mask.slice(0, row, tile.rows).slice(1, tile.key, tile.keys);
      AttentionTile part;
      part.masked = mask.present();
      part.q = by_heads(c.f32(q.slice(0, row, tile.rows)), kv_heads);
      part.k = by_heads(keys.slice(0, tile.key, tile.keys), kv_heads);
      part.v = by_heads(values.slice(0, tile.key, tile.keys), kv_heads);
      part.hidden = hidden_keys(algebra, attrs, tile, shown);
      part.out = by_heads(out.slice(0, row, tile.rows), kv_heads);
      if (lse.present()) part.lse = numbers_by_heads(lse.slice(0, row, tile.rows), kv_heads);
      attend(algebra, attrs, part);
      c.rewind(inner);
    }
    c.rewind(mark);
  }
}

constexpr KernelEntry kEntries[] = {{TERN_OP_ATTENTION, "fused", compose_fused_attention, false},
                                    {TERN_OP_ATTENTION, "composed", compose, false}};

}  // namespace

KernelList attention_kernels() { return kEntries; }

}  // namespace tern::npu
