// Attention of few query rows by keys and values where they lie, as decoding has them: all kv heads of a sequence go
// through its cache together, in the order in which it lies, at the speed of memory.
//
// Keys are taken in blocks of kKeyBlock at fixed places, blocks in runs, each with sums of its own that are joined in
// order: how many threads there are changes no bit.
#include <algorithm>

#include "backends/cpu/attention_forward.h"
#include "backends/cpu/check.h"
#include "backends/cpu/matmul_operand.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kMostRuns = 64;     // of one sequence
constexpr std::int64_t kSlotRuns = 128;    // of all that are split
constexpr std::int64_t kChunkOfRows = 16;  // where all heads of a row lie side by side

// Places of one kv head's tile, and its running sums.
struct HeadSpace {
  float *q, *scores, *block_out;
  RowStats stats;  // of a block: block_max and block_sum
};

// Sums of a tile's rows under one kv head: maxima, sums and weighted values.
struct Sums {
  float *max, *sum, *out;
  Sums(float* at, std::int64_t rows) : max(at), sum(at + rows), out(at + round_up(2 * rows, 16)) {}
};

float* direct_memory(const Forward& f, int thread) { return f.workspace + thread * f.space.total + f.space.direct; }

HeadSpace head_space(const Forward& f, float* mine, std::int64_t head) {
  const DirectSpace& d = f.space.by_head;
  float* at = mine + head * d.head;
  return {at + d.q, at + d.scores, at + d.block_out, RowStats(at, kDirectRows)};
}

Sums sums_of(const Forward& f, float* at, std::int64_t head) {
  const DirectSpace& d = f.space.by_head;
  return {at + head * (d.run / f.geometry.kv_heads), kDirectRows};
}

// Rows [first, first + count) that lie a stride apart in each head, and whose heads follow each other.
struct Chunk {
  std::int64_t first, count;
  const std::byte* at;  // of head 0
};

// From row `first` on, before row `end`. Nothing: no rows.
Chunk chunk_at(const HeadRows& rows, std::int64_t first, std::int64_t end) {
  std::int64_t n = end - first;
  if (n <= 0) return {first, 0, nullptr};
  if (rows.table != nullptr) n = std::min(n, rows.block_size - first % rows.block_size);
  if (rows.table == nullptr || rows.stride_head < rows.stride_row) n = std::min(n, kChunkOfRows);
  return {first, n, rows.at(first, 0)};
}

StoredRows rows_of(const HeadRows& rows, const Chunk& chunk, std::int64_t head, std::int64_t dim) {
  const std::int64_t bytes = rows.element_bytes();
  return {rows.dtype, chunk.at + head * rows.stride_head * bytes, rows.stride_row * bytes, chunk.count, dim};
}

// Chunks lie anywhere, and the cpu itself looks ahead within a page alone: asks for what is read next. Inlined, as gcc
// drops calls of functions that do nothing else.
inline __attribute__((always_inline)) void ask_for(const HeadRows& rows, const Chunk& chunk, std::int64_t head,
                                                   std::int64_t dim) {
  constexpr std::int64_t kLine = 64;
  const StoredRows asked = rows_of(rows, chunk, head, dim);
  const std::int64_t bytes = dim * rows.element_bytes();
  for (std::int64_t r = 0; r < asked.count; ++r) {
    for (std::int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(asked.first + r * asked.stride + i);
  }
}

// fn(chunk, the next one) for the rows of a block.
template <typename Fn>
void for_chunks(const HeadRows& rows, const KeyBlock& block, const Fn& fn) {
  for (Chunk chunk = chunk_at(rows, block.begin, block.end); chunk.count > 0;) {
    const Chunk next = chunk_at(rows, chunk.first + chunk.count, block.end);
    fn(chunk, next);
    chunk = next;
  }
}

// All heads' tiles by one block of keys: block_out and statistics of each. Where something in it is not finite panels
// do it, which keep that from rows that do not see it.
void run_keys(const Forward& f, const QueryTile* tiles, const KeyBlock& block, float* mine) {
  const Geometry& g = f.geometry;
  const auto sequence = static_cast<std::size_t>(tiles->sequence);
  const HeadRows &keys = f.keys[sequence], &values = f.values[sequence];
  const std::int64_t rows = tiles->count, ld = f.space.value_ld;
  const Chunk first_values = chunk_at(values, block.begin, block.end);
  for_chunks(keys, block, [&](const Chunk& chunk, const Chunk& next) {
    for (std::int64_t h = 0; h < g.kv_heads; ++h) {
      const HeadSpace head = head_space(f, mine, h);
      if (next.count > 0) ask_for(keys, next, h, g.head_dim);
      if (next.count == 0) ask_for(values, first_values, h, g.value_dim);
      f.rows.scores(rows_of(keys, chunk, h, g.head_dim), head.q, rows, head.scores + (chunk.first - block.k0),
                    kKeyBlock);
    }
  });
  BlockScales scales;
  for (std::int64_t h = 0; h < g.kv_heads; ++h) {
    const HeadSpace head = head_space(f, mine, h);
    if (keys.scales != nullptr) {
      const std::int64_t at = block.begin - block.k0, n = block.end - block.begin;
      read_scales(keys, h, block.begin, n, scales.keys + at);
      read_scales(values, h, block.begin, n, scales.values + at);
    }
    scale_keys(f, keys, block, scales.keys, rows, head.scores, kKeyBlock);
    weights_of_block(f, tiles[h], block, head.stats, head.scores, kKeyBlock);
    scale_keys(f, values, block, scales.values, rows, head.scores, kKeyBlock);
    std::fill_n(head.block_out, rows * ld, 0.0F);
  }
  for_chunks(values, block, [&](const Chunk& chunk, const Chunk& next) {
    for (std::int64_t h = 0; h < g.kv_heads; ++h) {
      const HeadSpace head = head_space(f, mine, h);
      if (next.count > 0) ask_for(values, next, h, g.value_dim);
      f.rows.weigh(rows_of(values, chunk, h, g.value_dim), head.scores + (chunk.first - block.k0), kKeyBlock, rows,
                   head.block_out, ld);
    }
  });
}

void run_keys_by_panels(const Forward& f, const QueryTile& tile, const KeyBlock& block, const HeadSpace& head,
                        int thread) {
  float* mine = f.workspace + thread * f.space.total;
  pack_queries(f, tile, mine);
  run_block(f, tile, {block.k0, block.begin / kKeyGroup * kKeyGroup, block.end}, mine);
  const RowStats stats(mine + f.space.stats, f.space.rows);
  std::copy_n(stats.block_max, tile.count, head.stats.block_max);
  std::copy_n(stats.block_sum, tile.count, head.stats.block_sum);
  std::copy_n(mine + f.space.block_out, tile.count * f.space.value_ld, head.block_out);
}

std::int64_t blocks_of(const Geometry::Range& keys) {
  return keys.lo < keys.hi ? (keys.hi + kKeyBlock - 1) / kKeyBlock - keys.lo / kKeyBlock : 0;
}

std::int64_t blocks_of_run(const Geometry::Range& keys) {
  return std::max<std::int64_t>(1, (blocks_of(keys) + kMostRuns - 1) / kMostRuns);
}

// Run `run` of the tiles' keys, to sums of its own.
void run_one(const Forward& f, const QueryTile* tiles, std::int64_t run, float* mine, float* to, int thread) {
  const std::int64_t rows = tiles->count, kv_heads = f.geometry.kv_heads;
  for (std::int64_t h = 0; h < kv_heads; ++h) {
    const Sums sums = sums_of(f, to, h);
    clear_sums(f, rows, sums.max, sums.sum, sums.out);
  }
  const auto keys = tile_keys(f, *tiles);
  const std::int64_t first = keys.lo / kKeyBlock + run * blocks_of_run(keys);
  const std::int64_t last = std::min(first + blocks_of_run(keys), keys.lo / kKeyBlock + blocks_of(keys));
  for (std::int64_t b = first; b < last; ++b) {
    const KeyBlock block{b * kKeyBlock, std::max(b * kKeyBlock, keys.lo), std::min((b + 1) * kKeyBlock, keys.hi)};
    run_keys(f, tiles, block, mine);
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      const HeadSpace head = head_space(f, mine, h);
      if (!f.rows.finite(head.block_out, rows * f.space.value_ld)) run_keys_by_panels(f, tiles[h], block, head, thread);
      const Sums sums = sums_of(f, to, h);
      f.rows.merge(rows, f.geometry.value_dim, f.space.value_ld, head.stats.block_max, head.stats.block_sum,
                   head.block_out, sums.max, sums.sum, sums.out);
    }
  }
}

void clear_total(const Forward& f, std::int64_t rows, float* total) {
  for (std::int64_t h = 0; h < f.geometry.kv_heads; ++h) {
    const Sums sums = sums_of(f, total, h);
    clear_sums(f, rows, sums.max, sums.sum, sums.out);
  }
}

void add_run(const Forward& f, std::int64_t rows, float* run, float* total) {
  for (std::int64_t h = 0; h < f.geometry.kv_heads; ++h) {
    const Sums from = sums_of(f, run, h), to = sums_of(f, total, h);
    f.rows.merge(rows, f.geometry.value_dim, f.space.value_ld, from.max, from.sum, from.out, to.max, to.sum, to.out);
  }
}

void finish(const Forward& f, const QueryTile* tiles, float* total) {
  for (std::int64_t h = 0; h < f.geometry.kv_heads; ++h) {
    const Sums sums = sums_of(f, total, h);
    finish_rows(f, tiles[h], sums.max, sums.sum, sums.out);
  }
}

}  // namespace

DirectSpace direct_space(std::int64_t kv_heads, std::int64_t head_dim, std::int64_t value_dim, std::int64_t most_rows) {
  const std::int64_t value_ld = round_up(value_dim, 16);
  DirectSpace d{};
  std::int64_t at = 4 * kDirectRows;  // statistics
  const auto take = [&at](std::int64_t floats) {
    const std::int64_t begin = at;
    at += round_up(floats, 16);
    return begin;
  };
  d.q = take(kDirectRows * head_dim);
  d.scores = take(kDirectRows * kKeyBlock);
  d.block_out = take(kDirectRows * value_ld);
  d.head = at;
  d.run = kv_heads * (2 * kDirectRows + kDirectRows * value_ld);
  d.sums = kv_heads * d.head;
  d.total_sums = d.sums + d.run;
  d.runs = most_rows <= kDirectRows ? kSlotRuns : 0;
  return d;
}

bool is_direct(const Forward& f, const QueryTile& tile) {
  const auto sequence = static_cast<std::size_t>(tile.sequence);
  return !f.row_invariant && tile.count <= kDirectRows && f.geometry.head_dim % kDirectDim == 0 &&
         f.geometry.value_dim % kDirectDim == 0 && f.keys[sequence].stride_element == 1 &&
         f.values[sequence].stride_element == 1;
}

std::int64_t direct_runs(const Forward& f, const QueryTile& tile) {
  const auto keys = tile_keys(f, tile);
  return (blocks_of(keys) + blocks_of_run(keys) - 1) / blocks_of_run(keys);
}

void run_direct(const Forward& f, const DirectPiece& piece, int thread) {
  float* mine = direct_memory(f, thread);
  const DirectSpace& d = f.space.by_head;
  const std::int64_t rows = piece.tiles->count;
  for (std::int64_t h = 0; h < f.geometry.kv_heads; ++h) read_queries(f, piece.tiles[h], head_space(f, mine, h).q);
  float* total = mine + d.total_sums;
  if (piece.slots == nullptr) clear_total(f, rows, total);
  for (std::int64_t run = piece.first_run; run < piece.first_run + piece.runs; ++run) {
    float* to = piece.slots == nullptr ? mine + d.sums : piece.slots + run * d.run;
    run_one(f, piece.tiles, run, mine, to, thread);
    if (piece.slots == nullptr) add_run(f, rows, to, total);
  }
  if (piece.slots == nullptr) finish(f, piece.tiles, total);
}

void join_direct(const Forward& f, const DirectPiece& whole, int thread) {
  float* total = direct_memory(f, thread) + f.space.by_head.total_sums;
  clear_total(f, whole.tiles->count, total);
  for (std::int64_t run = 0; run < whole.runs; ++run) {
    add_run(f, whole.tiles->count, whole.slots + run * f.space.by_head.run, total);
  }
  finish(f, whole.tiles, total);
}

}  // namespace tern::cpu
