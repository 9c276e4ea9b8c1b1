// What ops share that carry a state through each sequence (ops/recurrent_shared.h says what a state does), and what
// their chunked forms share.
#pragma once

#include "backends/npu/algebra.h"

namespace tern::npu {

inline constexpr std::int64_t kChunk = 64;  // rows whose decays one exponential may sum

struct Rows {
  std::int64_t first = 0;
  std::int64_t count = 0;  // at least 1
  std::int64_t sequence = 0;
};
// Sequences with rows. While the op is planned: the longest that there may be.
[[nodiscard]] std::vector<Rows> row_sequences(const Composer& composer, int cu_seqlens, std::int64_t rows,
                                              std::int32_t max_seqlen);

// The states of all seats; absent views: the op has none.
struct States {
  View kv_lens, seats, all;
};
[[nodiscard]] States states(Composer& composer, int kv_lens, int seats, int state);
// What the sequence goes on from, fp32, [state of one seat...] into `out`: zeros where it begins.
void load_state(Algebra& algebra, const States& states, const Rows& rows, const View& out);
void store_state(Algebra& algebra, const States& states, const Rows& rows, const View& value);

// [rows, heads] fp32 as [groups, heads / groups, rows, 1], contiguous.
[[nodiscard]] View head_column(Algebra& algebra, const View& numbers, std::int64_t groups);

// Decays within one chunk: g[i] = sum of the decays up to row i.
struct Decays {
  View from_start;  // exp(g) [.., rows, 1]
  View to_end;      // exp(g[last] - g) [.., rows, 1]
  View whole;       // exp(g[last]) [.., 1, 1]
  View between;     // exp(g[i] - g[j]) for j <= i, else 0 [.., rows, rows]
};
[[nodiscard]] Decays decays(Algebra& algebra, const View& decay);

// A chunk's products multiply what a row doesn't see by 0, which takes no NaN away. So rows are cleaned of it before,
// and it is added to what comes behind them.
// Gives what to add, [.., rows, 1]: NaN from the first row on whose `values` or `keys` aren't finite; these become 0.
[[nodiscard]] View take_poison(Algebra& algebra, View& values, View& keys);

// Triangles of ones, [rows, rows].
struct Triangles {
  View later;    // 1 where the column is beyond the row
  View earlier;  // 1 where the row is beyond the column
};
[[nodiscard]] Triangles triangles(Algebra& algebra, std::int64_t rows);

// The gradient by each row's decay, [.., rows, 1]. The decay of row l is in every path from before l to l or later.
struct DecayPaths {
  View inside;      // [.., i, j]: from row j to row i of the chunk, j <= i
  View from_start;  // [.., rows, 1]: from the state before the chunk to row i
  View to_end;      // [.., rows, 1]: from row j to the state behind the chunk
  View through;     // [.., 1, 1]: from state to state
};
[[nodiscard]] View decay_gradient(Algebra& algebra, const Triangles& ones, const DecayPaths& paths);

// Sums over the heads of a group: [groups, heads / groups, rows, width] to [groups, 1, rows, width].
[[nodiscard]] View group_sum(Algebra& algebra, const View& view);

}  // namespace tern::npu
