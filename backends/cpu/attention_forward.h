// The forward of attention over tiles of query rows (Dao et al., arXiv:2205.14135). attention.cpp and
// attention_paged.cpp say where the keys and values of each sequence lie.
#pragma once

#include <string>

#include "backends/cpu/attention_tile.h"

namespace tern::cpu {

// Where few rows meet keys and values as they lie, for each kv head (attention_direct.cpp), in floats.
inline constexpr std::int64_t kDirectRows = 16;
struct DirectSpace {
  std::int64_t q, scores, block_out, sums, total_sums, head;  // `head`: from one kv head to the next
  std::int64_t run;                                           // sums of a run of keys of all heads
  std::int64_t runs;                                          // that fit the slots, behind what the threads have
};
[[nodiscard]] DirectSpace direct_space(std::int64_t kv_heads, std::int64_t head_dim, std::int64_t value_dim,
                                       std::int64_t most_rows);

// One thread's memory, in floats.
struct ForwardSpace {
  std::int64_t rows, value_ld;
  std::int64_t strip;  // of rows that are multiplied at once: their scores stay in the first cache
  std::int64_t slot;   // of one block's sums, behind what the threads have; 0: tiles are never split
  std::int64_t q, k, v, p, scores, block_out, out, stats, gathered, scratch, direct, total;
  DirectSpace by_head;  // from `direct` on
};

// Per-row arrays of a tile.
struct RowStats {
  float *max, *sum, *block_max, *block_sum;
  RowStats(float* at, std::int64_t rows)
      : max(at), sum(at + rows), block_max(at + 2 * rows), block_sum(at + 3 * rows) {}
};

// A block of keys [k0, end), of which those before `begin` are seen by no row of the tile. A whole number of kKeyGroup
// lies between k0 and begin: where products are cut changes no bit then.
inline constexpr std::int64_t kKeyGroup = 32;
struct KeyBlock {
  std::int64_t k0, begin, end;
};

// Scales of a block's keys and values at key - k0, of a cache in 8 bits.
struct BlockScales {
  alignas(64) float keys[kKeyBlock];
  alignas(64) float values[kKeyBlock];
};

// Inputs and outputs of one launch.
struct Forward {
  const PanelFormat format;
  const RowKernels& rows;
  const Geometry geometry;
  const ForwardSpace space;
  Kept<Sequence> sequences;
  Kept<HeadRows> keys, values;  // by sequence
  HeadRows queries;
  const TensorView& sinks;
  const TensorView& out;
  const TensorView& lse;
  float* workspace;
  bool row_invariant;  // asked for: every row takes the panels' order of sums
};

// The numbers of those arguments that do not stand in the same place in both ops: q, k and v do.
struct ForwardPlaces {
  int sinks, mask, out, lse;
  int kv_rank;
  bool has_codes = false;  // keys and values may be a cache's in 8 bits
};
[[nodiscard]] bool forward_supports(const PlanDesc& desc, const ForwardPlaces& places, std::string& reason);
[[nodiscard]] std::uint64_t forward_workspace(const PlanDesc& desc);

// `most_rows`: of a sequence under one kv head. What the plan said, not what a launch brings: so few that they fit one
// panel are decoding, whose tiles may be split by blocks of keys.
[[nodiscard]] ForwardSpace forward_space(const PanelFormat& format, std::int64_t kv_heads, std::int64_t head_dim,
                                         std::int64_t value_dim, std::int64_t most_rows);

// Without sequences.
template <typename Attrs>
[[nodiscard]] Forward make_forward(const KernelArgs& args, const ForwardPlaces& places) {
  const TensorView &q = args[0], &k = args[1], &v = args[2];
  const PanelFormat format = forward_format(args.target, q.dtype(), k.dtype(), v.dtype(), q.dim(2));
  const std::int64_t value_dim = v.dim(places.kv_rank - 1), kv_heads = k.dim(places.kv_rank - 2);
  const auto& attrs = args.attr<Attrs>();
  return {format,
          row_kernels(args.target),
          make_geometry(attrs, q, kv_heads, value_dim, args[places.mask]),
          forward_space(format, kv_heads, q.dim(2), value_dim, attrs.max_seqlen_q * (q.dim(1) / kv_heads)),
          {},
          {},
          {},
          head_rows(q, 0),
          args[places.sinks],
          args[places.out],
          args[places.lse],
          reinterpret_cast<float*>(args.workspace),
          (args.needs & TERN_NEED_ROW_INVARIANT) != 0};
}

// The rows of a tile as floats, [count, head_dim].
void read_queries(const Forward& f, const QueryTile& tile, float* to);
// Packed queries of a tile, in `mine`.
void pack_queries(const Forward& f, const QueryTile& tile, float* mine);
// All rows of the tile by one block as panels: space.block_out and the blocks' statistics of space.stats, in `mine`.
void run_block(const Forward& f, const QueryTile& tile, const KeyBlock& block, float* mine);
// Rows of `scores`, ld floats apart and of key block.k0 on, become weights; block_max and block_sum of stats.
void weights_of_block(const Forward& f, const QueryTile& tile, const KeyBlock& block, const RowStats& stats,
                      float* scores, std::int64_t ld);
// Rows of scores or weights of keys [begin, end) times their scales, where there are some; ld floats apart.
void scale_keys(const Forward& f, const HeadRows& of, const KeyBlock& block, const float* scales, std::int64_t rows,
                float* scores, std::int64_t ld);
// Sums of nothing; and sums of all keys to what the op gives. Rows of `out` are space.value_ld floats apart.
void clear_sums(const Forward& f, std::int64_t rows, float* max, float* sum, float* out);
void finish_rows(const Forward& f, const QueryTile& tile, const float* max, const float* sum, float* out);
// The keys that some row of the tile sees.
[[nodiscard]] Geometry::Range tile_keys(const Forward& f, const QueryTile& tile);

// So few rows that packing keys and values for them takes longer than multiplying them where they lie.
[[nodiscard]] bool is_direct(const Forward& f, const QueryTile& tile);
// Some runs of keys of one tile of each kv head, which lie side by side in `tiles`.
struct DirectPiece {
  const QueryTile* tiles;
  std::int64_t first_run, runs;
  float* slots;  // for the sums of each run; null: all runs, and the tiles' rows are finished
};
[[nodiscard]] std::int64_t direct_runs(const Forward& f, const QueryTile& tile);
void run_direct(const Forward& f, const DirectPiece& piece, int thread);
// Finishes what pieces have left in `slots`.
void join_direct(const Forward& f, const DirectPiece& whole, int thread);

// Rows that no sequence of `cu_q` holds become empty ones.
void run_forward(const Forward& f, const Kept<std::int32_t>& cu_q, ThreadPool& pool);

}  // namespace tern::cpu
