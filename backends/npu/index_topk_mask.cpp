#include <limits>

#include "backends/npu/attention_shape.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Rows of one sequence and the keys up to the last that one of them sees.
struct Part {
  View q;                  // [rows, index_heads, index_dim]
  View weights;            // [rows, index_heads]
  View k;                  // [keys, index_dim] fp32
  View mask;               // [rows, keys] bool
  std::int64_t place = 0;  // of the first row
};

// A score is kept where it's above that of rank topk, or equal to it and no later: equal scores go by their place.
void choose(Algebra& algebra, const Part& part, std::int64_t topk) {
  Composer& c = algebra.composer();
  const std::int64_t rows = part.q.dim(0), keys = part.k.dim(0);
  const View numbers = algebra.range(0, keys, ACL_INT32).reshaped({1, keys});
  const View places = algebra.range(part.place, rows, ACL_INT32).reshaped({rows, 1});
  const View hidden = algebra.greater(numbers, places);
  if (keys <= topk && !c.planning()) {
    c.copy(part.mask, algebra.negate(hidden));
    return;
  }
  const View q = c.f32(part.q).transposed(0, 1);  // [heads, rows, dim]
  const View s = algebra.product(q, part.k.unsqueezed(0).transposed(1, 2));
  algebra.relu(s, s);
  algebra.mul(s, c.f32(part.weights).transposed(0, 1).unsqueezed(2), s);
  const View total = algebra.sum(s, 0).reshaped({rows, keys});
  const View lowest = algebra.constant(-kInfinity);
  const View score = algebra.select(algebra.equal(total, total), total, lowest);
  algebra.put_where(score, hidden, -kInfinity);
  const Algebra::Sorted sorted = algebra.sort(score, true);
  const std::int64_t rank = std::min(topk, keys) - 1;
  const View border = sorted.values.slice(1, rank, 1), last = c.cast(sorted.places.slice(1, rank, 1), ACL_INT32);
  const View tied = algebra.both(algebra.equal(score, border), algebra.at_least(last, numbers));
  const View chosen = algebra.either(algebra.greater(score, border), tied);
  c.copy(part.mask, algebra.both(chosen, algebra.negate(hidden)));
}

struct Index {
  View q, weights, mask;
  std::int64_t topk = 0;
  std::int64_t most = 0;  // rows at a time
};

tern_attention_attrs causal(std::int32_t rows, std::int32_t keys) {
  tern_attention_attrs attrs{};
  attrs.causal = 1;
  attrs.max_seqlen_q = rows;
  attrs.max_seqlen_k = keys;
  return attrs;
}

// `keys`: those of the sequence, fp32.
void run_sequence(Algebra& algebra, const tern_attention_attrs& attrs, const Index& index, const Sequence& sequence,
                  const View& keys) {
  Composer& c = algebra.composer();
  for (const Tile& tile : tiles(c, attrs, sequence.rows, sequence.keys, index.most)) {
    const std::int64_t mark = c.mark(), row = sequence.row + tile.row;
    const auto rows = [&](const View& view) { return view.slice(0, row, tile.rows); };
    choose(algebra,
           {rows(index.q), rows(index.weights), keys.slice(0, 0, tile.keys), rows(index.mask).slice(1, 0, tile.keys),
            tile.place},
           index.topk);
    c.rewind(mark);
  }
}

void compose(Composer& c) {
  const auto& given = c.attrs<tern_index_topk_mask_attrs>();
  const tern_attention_attrs attrs = causal(given.max_seqlen_q, given.max_seqlen_k);
  Algebra algebra(c);
  Index index{c.arg(TERN_INDEX_TOPK_MASK_Q), c.arg(TERN_INDEX_TOPK_MASK_WEIGHTS), c.arg(TERN_INDEX_TOPK_MASK_MASK),
              given.topk, 1};
  index.most = tile_rows(index.q.dim(1) + 2, std::max(1, given.max_seqlen_k), given.max_seqlen_q);
  const View k = c.arg(TERN_INDEX_TOPK_MASK_K);
  c.zero(index.mask);
  for (const Sequence& sequence : sequences(c, attrs, TERN_INDEX_TOPK_MASK_CU_SEQLENS_Q, index.q.dim(0),
                                            TERN_INDEX_TOPK_MASK_CU_SEQLENS_K, k.dim(0))) {
    if (sequence.rows == 0 || sequence.keys == 0) continue;
    const std::int64_t mark = c.mark();
    run_sequence(algebra, attrs, index, sequence, c.f32(k.slice(0, sequence.key, sequence.keys)));
    c.rewind(mark);
  }
}

void compose_paged(Composer& c) {
  const auto& given = c.attrs<tern_index_topk_mask_paged_attrs>();
  const tern_attention_attrs attrs = causal(given.max_seqlen_q, given.max_seqlen_k);
  Algebra algebra(c);
  Index index{c.arg(TERN_INDEX_TOPK_MASK_PAGED_Q), c.arg(TERN_INDEX_TOPK_MASK_PAGED_WEIGHTS),
              c.arg(TERN_INDEX_TOPK_MASK_PAGED_MASK), given.topk, 1};
  index.most = tile_rows(index.q.dim(1) + 2, std::max(1, given.max_seqlen_k), given.max_seqlen_q);
  const View cache = c.arg(TERN_INDEX_TOPK_MASK_PAGED_K_CACHE), table = c.arg(TERN_INDEX_TOPK_MASK_PAGED_BLOCK_TABLE);
  c.zero(index.mask);
  for (const Sequence& sequence :
       paged_sequences(c, attrs,
                       {TERN_INDEX_TOPK_MASK_PAGED_CU_SEQLENS_Q, TERN_INDEX_TOPK_MASK_PAGED_KV_LENS, index.q.dim(0),
                        table.dim(1) * cache.dim(1)})) {
    if (sequence.keys == 0) continue;
    const std::int64_t mark = c.mark();
    const View row_table = table.slice(0, sequence.index, 1).reshaped({table.dim(1)});
    const View keys = gather_keys(algebra, cache, row_table, 0, sequence.keys);
    run_sequence(algebra, attrs, index, sequence, keys.reshaped({sequence.keys, cache.dim(3)}));
    c.rewind(mark);
  }
}

constexpr KernelEntry kEntries[] = {{TERN_OP_INDEX_TOPK_MASK, "composed", compose, false},
                                    {TERN_OP_INDEX_TOPK_MASK_PAGED, "composed", compose_paged, false}};

}  // namespace

KernelList index_topk_mask_kernels() { return kEntries; }

}  // namespace tern::npu
