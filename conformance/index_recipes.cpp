// Keys that an indexer chooses. Numbers are small fractions whose sums fp32 holds exactly, in any order: then every
// device must choose as the oracle does, and scores that are equal are so on all of them.
#include <array>

#include "conformance/attention_cases.h"
#include "conformance/recipe.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

struct IndexSize {
  std::int64_t rows;  // of queries, all sequences together
  std::int64_t sequences;
  std::int64_t heads;
  std::int64_t dim;
  std::int32_t topk;
  std::int64_t history = 45;  // keys beyond the rows, at most
};
// Middling, odd, one head, one row, no row, a long sequence; then many heads over a thousand keys, decoding, more rows
// than 256.
constexpr std::array<IndexSize, 9> kSizes = {{{24, 3, 4, 32, 9},
                                              {17, 4, 3, 10, 7},
                                              {37, 2, 1, 64, 16},
                                              {1, 1, 1, 8, 1},
                                              {0, 1, 2, 16, 3},
                                              {301, 1, 4, 16, 64},
                                              {9, 1, 64, 128, 700, 1201},
                                              {3, 3, 16, 64, 256, 1109},
                                              {331, 3, 2, 32, 40, 70}}};

const IndexSize& size_of(const CaseBuilder& b) { return kSizes[static_cast<std::size_t>(b.variant().size)]; }

// Quarters from -1 to 1; in option 1 whole numbers, of which many scores are equal.
std::vector<double> small_fractions(CaseBuilder& b, std::int64_t count) {
  const std::int64_t most = b.variant().option == 1 ? 1 : 4;
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& x : out) x = static_cast<double>(b.random().below(2 * most + 1) - most) / static_cast<double>(most);
  return out;
}

template <typename Attrs>
void fill_queries(CaseBuilder& b, std::int64_t rows, std::int64_t longest) {
  const IndexSize& size = size_of(b);
  const bool decodes = size.rows == size.sequences && size.rows > 0;  // a row each
  b.attrs(Attrs{size.topk, static_cast<std::int32_t>(decodes ? 1 : size.rows), static_cast<std::int32_t>(longest)});
  static_assert(int{TERN_INDEX_TOPK_MASK_Q} == int{TERN_INDEX_TOPK_MASK_PAGED_Q});
  static_assert(int{TERN_INDEX_TOPK_MASK_WEIGHTS} == int{TERN_INDEX_TOPK_MASK_PAGED_WEIGHTS});
  b.values(TERN_INDEX_TOPK_MASK_Q, b.variant().in, {size.rows, size.heads, size.dim},
           small_fractions(b, rows * size.heads * size.dim), 0);
  b.values(TERN_INDEX_TOPK_MASK_WEIGHTS, b.variant().out, {size.rows, size.heads},
           small_fractions(b, rows * size.heads), 0);
}

// Wider than any sequence: whoever takes its rows for shorter ones writes the wrong keys.
void fill_mask(CaseBuilder& b, int arg, std::int64_t longest) {
  b.out(arg, TERN_BOOL, {size_of(b).rows, longest + 3}, 0);
}

void make_index_topk_mask(CaseBuilder& b) {
  const IndexSize& size = size_of(b);
  const std::int64_t longest = size.rows + size.history;
  const std::int64_t rows = b.count_for(size.rows, 0);
  const std::int64_t keys = b.count_for(longest, 1, rows);
  const std::vector<std::int64_t> cu_q = cumulative(b, size.sequences, rows);
  std::vector<std::int64_t> cu_k = cumulative(b, size.sequences, keys - cu_q.back());
  for (std::size_t i = 0; i < cu_k.size(); ++i) cu_k[i] += cu_q[i];
  fill_queries<tern_index_topk_mask_attrs>(b, rows, longest);
  b.values(TERN_INDEX_TOPK_MASK_K, b.variant().in, {longest, size.dim}, small_fractions(b, keys * size.dim), 0, 1);
  b.counted(TERN_INDEX_TOPK_MASK_CU_SEQLENS_Q, cu_q, kBoundsSlot, cu_q.back());
  b.counted(TERN_INDEX_TOPK_MASK_CU_SEQLENS_K, cu_k, kBoundsSlot, cu_k.back());
  fill_mask(b, TERN_INDEX_TOPK_MASK_MASK, longest);
}

void make_index_topk_mask_paged(CaseBuilder& b) {
  const IndexSize& size = size_of(b);
  const std::int64_t longest = size.rows + size.history;
  const std::int64_t rows = b.count_for(size.rows);
  const PagedCase paged = paged_case(b, {size.sequences, rows, size.history, longest});
  fill_queries<tern_index_topk_mask_paged_attrs>(b, rows, longest);
  b.values(TERN_INDEX_TOPK_MASK_PAGED_K_CACHE, b.variant().in, {paged.blocks, b.kv_block(), 1, size.dim},
           small_fractions(b, paged.blocks * b.kv_block() * size.dim));
  b.make_unreadable(TERN_INDEX_TOPK_MASK_PAGED_K_CACHE);  // block 0, which unused entries of the table name
  b.counted(TERN_INDEX_TOPK_MASK_PAGED_BLOCK_TABLE, paged.table, kSequencesSlot, 0, paged.max_blocks);
  b.counted(TERN_INDEX_TOPK_MASK_PAGED_CU_SEQLENS_Q, paged.cu_q, kBoundsSlot, paged.cu_q.back());
  b.counted(TERN_INDEX_TOPK_MASK_PAGED_KV_LENS, paged.lens, kSequencesSlot, 0);
  fill_mask(b, TERN_INDEX_TOPK_MASK_PAGED_MASK, longest);
}

constexpr std::uint32_t kFeatures = kDtypes | kMixed | kLayouts | kDynamic | kRows;
constexpr Recipe kRecipes[] = {
    {TERN_OP_INDEX_TOPK_MASK, kSizes.size(), 2, kFeatures, make_index_topk_mask},
    {TERN_OP_INDEX_TOPK_MASK_PAGED, kSizes.size(), 2, kFeatures, make_index_topk_mask_paged},
};

}  // namespace

std::span<const Recipe> index_recipes() { return kRecipes; }

}  // namespace tern::conformance
