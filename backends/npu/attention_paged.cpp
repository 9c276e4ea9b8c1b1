// Attention over a paged cache in the contract's own steps: a sequence's blocks are gathered, and then it is attention
// over contiguous keys. For what CANN's fused call refuses.
#include <limits>

#include "backends/npu/attention_forward.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

tern_attention_attrs shared(const tern_attention_paged_attrs& given) {
  return {given.scale,        given.softcap,      given.causal,       given.window,
          given.max_seqlen_q, given.max_seqlen_k, given.window_right, given.chunk};
}

void compose(Composer& c) {
  if (c.present(TERN_ATTENTION_PAGED_K_SCALE)) c.refuse("a cache in 8 bits");
  const tern_attention_attrs attrs = shared(c.attrs<tern_attention_paged_attrs>());
  if (c.present(TERN_ATTENTION_PAGED_SINKS)) c.refuse("sinks are joined afterwards, by sink_scale");
  Algebra algebra(c);
  const View q = c.arg(TERN_ATTENTION_PAGED_Q), k = c.arg(TERN_ATTENTION_PAGED_K_CACHE);
  const View v = c.arg(TERN_ATTENTION_PAGED_V_CACHE), table = c.arg(TERN_ATTENTION_PAGED_BLOCK_TABLE);
  const View mask = c.arg(TERN_ATTENTION_PAGED_MASK), out = c.arg(TERN_ATTENTION_PAGED_OUT);
  const View lse = c.arg(TERN_ATTENTION_PAGED_LSE);
  c.zero(out);
  if (lse.present()) c.fill(lse, -std::numeric_limits<double>::infinity());
  const std::int64_t most = tile_rows(q.dim(1), std::max(1, attrs.max_seqlen_k), attrs.max_seqlen_q);
  for (const Sequence& sequence : paged_sequences(
           c, attrs,
           {TERN_ATTENTION_PAGED_CU_SEQLENS_Q, TERN_ATTENTION_PAGED_KV_LENS, q.dim(0), table.dim(1) * k.dim(1)})) {
    if (sequence.keys == 0) continue;
    const std::int64_t mark = c.mark();
    const std::vector<Tile> parts = tiles(c, attrs, sequence.rows, sequence.keys, most);
    std::int64_t first = sequence.keys, end = 0;
    for (const Tile& tile : parts) {
      if (tile.keys == 0) continue;
      first = std::min(first, tile.key);
      end = std::max(end, tile.key + tile.keys);
    }
    if (first >= end) continue;
    const View row_table = table.slice(0, sequence.index, 1).reshaped({table.dim(1)});
    const View keys = gather_keys(algebra, k, row_table, first, end);
    const View values = gather_keys(algebra, v, row_table, first, end);
    for (const Tile& tile : parts) {
      attend(algebra, attrs, {q, mask, out, lse, keys, values, first, sequence.row}, tile);
    }
    c.rewind(mark);
  }
}

constexpr KernelEntry kEntries[] = {{TERN_OP_ATTENTION_PAGED, "fused", compose_fused_paged_attention, false},
                                    {TERN_OP_ATTENTION_PAGED, "composed", compose, false}};

}  // namespace

KernelList attention_paged_kernels() { return kEntries; }

}  // namespace tern::npu
