// What attention's kernels share: views of heads, and which keys a tile of rows sees.
#pragma once

#include <algorithm>

#include "backends/npu/algebra.h"

namespace tern::npu {

// [rows, heads, width] as [kv_heads, heads / kv_heads, rows, width].
[[nodiscard]] View by_heads(const View& rows, std::int64_t kv_heads);
// [rows, heads] as [kv_heads, heads / kv_heads, rows, 1].
[[nodiscard]] View numbers_by_heads(const View& rows, std::int64_t kv_heads);

// Rows of one sequence that are computed together, and the keys that any of them may see.
struct Tile {
  std::int64_t row = 0;  // in the sequence
  std::int64_t rows = 0;
  std::int64_t key = 0;    // the first, in the sequence
  std::int64_t keys = 0;   // 0: nobody sees one
  std::int64_t place = 0;  // p of the first row
};

// The tiles of a sequence, each of `most` rows at most and of one chunk. While the op is planned: the largest that
// there may be, so that no launch needs more memory.
[[nodiscard]] std::vector<Tile> tiles(const Composer& composer, const tern_attention_attrs& attrs, std::int64_t rows,
                                      std::int64_t keys, std::int64_t most);
// Rows of a tile: its scores [heads, rows, longest] in fp32 take about 32 MiB.
[[nodiscard]] std::int64_t tile_rows(std::int64_t heads, std::int64_t longest, std::int64_t most);

// What the tile's rows may not see, [rows, keys]; absent: they see all of it. `mask`: the tile's part of the op's, or
// absent.
[[nodiscard]] View hidden_keys(Algebra& algebra, const tern_attention_attrs& attrs, const Tile& tile, const View& mask);

// One sequence: where its rows and keys begin, and how many there are.
struct Sequence {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t key = 0;
  std::int64_t keys = 0;
  std::int64_t index = 0;
};

// The sequences of a launch. While the op is planned: the longest that there may be.
[[nodiscard]] std::vector<Sequence> sequences(const Composer& composer, const tern_attention_attrs& attrs,
                                              int cu_seqlens_q, std::int64_t q_rows, int cu_seqlens_k,
                                              std::int64_t k_rows);

// As above, of keys that lie in blocks: those of a sequence count from 0, and sequences without rows are left out.
struct PagedArgs {
  int cu_seqlens_q;
  int kv_lens;
  std::int64_t q_rows;
  std::int64_t capacity;  // tokens that a row of the block table names
};
[[nodiscard]] std::vector<Sequence> paged_sequences(const Composer& composer, const tern_attention_attrs& attrs,
                                                    const PagedArgs& args);
// The keys `first` to `end` of a sequence out of their blocks, [keys, kv_heads, width] fp32.
[[nodiscard]] View gather_keys(Algebra& algebra, const View& cache, const View& table, std::int64_t first,
                               std::int64_t end);

// scores [kv_heads, group, rows, keys] in fp32 of one tile: scaled, capped, and -infinity where hidden.
struct Scores {
  View values;
  View slope;  // of the cap, 1 - tanh^2; absent without a cap or where nobody asks
};
[[nodiscard]] Scores scores(Algebra& algebra, const tern_attention_attrs& attrs, const View& q, const View& k,
                            const View& hidden, bool slope);

}  // namespace tern::npu
