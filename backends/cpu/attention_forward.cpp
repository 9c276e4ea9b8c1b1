#include "backends/cpu/attention_forward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "backends/cpu/check.h"
#include "backends/cpu/matmul_operand.h"

namespace tern::cpu {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

constexpr std::int64_t kSlots = 256;  // sums of single blocks of keys

std::int64_t panel_rows(const Forward& f, const QueryTile& tile) {
  return std::min<std::int64_t>(tile.count, f.format.kernels->mr);
}

const Sequence& sequence_of(const Forward& f, const QueryTile& tile) {
  return f.sequences[static_cast<std::size_t>(tile.sequence)];
}

// Values that are not finite, with their keys.
using Unclean = std::vector<std::pair<std::int64_t, std::vector<float>>>;

// 0 times a NaN or an infinity is NaN: values that are not finite are taken out of the packed ones, [begin, begin + n),
// as masked rows would catch them.
Unclean take_unclean_values(const Forward& f, const QueryTile& tile, std::int64_t begin, std::int64_t n,
                            std::uint32_t* words) {
  const Geometry& g = f.geometry;
  const std::int64_t nr = f.format.kernels->nr, panel = nr * f.format.steps(n);
  std::vector<float> value(static_cast<std::size_t>(g.value_dim));
  Unclean unclean;
  for (std::int64_t j = 0; j < n; ++j) {
    read_row(*f.format.kernels, f.values[static_cast<std::size_t>(tile.sequence)], begin + j, tile.kv_head, g.value_dim,
             value.data());
    if (f.rows.finite(value.data(), g.value_dim)) continue;
    unclean.emplace_back(begin + j, value);
    for (std::int64_t c = 0; c < g.value_dim; ++c) {
      std::uint32_t& word = words[c / nr * panel + (f.format.pairs ? j / 2 : j) * nr + c % nr];
      word &= !f.format.pairs ? 0U : j % 2 == 0 ? 0xffff0000U : 0xffffU;
    }
  }
  return unclean;
}

// The same of a cache in 8 bits, whose codes are finite: their scales become 0.
Unclean take_unclean_scales(const Forward& f, const KeyBlock& block, float* scales) {
  Unclean unclean;
  for (std::int64_t key = block.begin; key < block.end; ++key) {
    float& scale = scales[key - block.k0];
    if (std::isfinite(scale)) continue;
    unclean.emplace_back(key, std::vector<float>(static_cast<std::size_t>(f.geometry.value_dim), scale));
    scale = 0;
  }
  return unclean;
}

// Adds them to the rows that do see them; `scores` are of keys from k0 on.
void add_unclean_values(const Forward& f, const QueryTile& tile, const Unclean& unclean, std::int64_t k0,
                        const float* scores, float* out) {
  const Geometry& g = f.geometry;
  const Sequence& s = sequence_of(f, tile);
  for (std::int64_t r = 0; r < tile.count; ++r) {
    const std::int64_t i = (tile.first + r) / g.group;
    const Geometry::Range seen = g.visible(s, i);
    for (const auto& [key, row] : unclean) {
      if (key < seen.lo || key >= seen.hi || !g.mask.shows(s.q0 + i, key)) continue;
      for (std::int64_t c = 0; c < g.value_dim; ++c) {
        out[r * f.space.value_ld + c] += scores[r * kKeyBlock + key - k0] * row[static_cast<std::size_t>(c)];
      }
    }
  }
}

// Scores [lo, hi) become logits, those of keys that the mask hides -infinity: the soft cap would bound that.
void hide_keys(const Forward& f, std::int64_t query, std::int64_t k0, std::int64_t lo, std::int64_t hi, float* scores) {
  const Logits& logits = f.geometry.logits;
  f.rows.scale(scores + lo, logits.scale, hi - lo);
  if (logits.softcap > 0) f.rows.softcap(scores + lo, hi - lo, logits.softcap, scores + lo);
  f.geometry.mask.hide(query, k0 + lo, k0 + hi, kNothing, scores + lo);
}

LeftRows queries_of(const Forward& f, const QueryTile& tile, float* mine) {
  return {f.format, tile.count, f.geometry.head_dim, panel_rows(f, tile),
          reinterpret_cast<std::uint32_t*>(mine + f.space.q)};
}

// The keys of a block that some of the rows see.
KeyBlock seen_of(const Forward& f, const QueryTile& rows, const KeyBlock& block) {
  const auto [lo, hi] = tile_keys(f, rows);
  const std::int64_t begin = std::min(std::max(block.begin, lo / kKeyGroup * kKeyGroup), block.end);
  return {block.k0, begin, std::max(begin, std::min(block.end, hi))};
}

}  // namespace

void read_queries(const Forward& f, const QueryTile& tile, float* to) {
  const std::int64_t d = f.geometry.head_dim;
  for (std::int64_t r = 0; r < tile.count; ++r) {
    const std::int64_t row = tile.first + r;
    read_row(*f.format.kernels, f.queries, sequence_of(f, tile).q0 + row / f.geometry.group,
             tile.kv_head * f.geometry.group + row % f.geometry.group, d, to + r * d);
  }
}

void pack_queries(const Forward& f, const QueryTile& tile, float* mine) {
  const std::int64_t d = f.geometry.head_dim;
  float* rows = mine + f.space.gathered;
  read_queries(f, tile, rows);
  queries_of(f, tile, mine).pack(rows, d, mine + f.space.scratch);
}

void weights_of_block(const Forward& f, const QueryTile& tile, const KeyBlock& block, const RowStats& stats,
                      float* scores, std::int64_t ld) {
  const Geometry& g = f.geometry;
  const Sequence& s = sequence_of(f, tile);
  const std::int64_t columns = block.end - block.k0;
  for (std::int64_t r = 0; r < tile.count; ++r) {
    const Geometry::Range seen = g.visible(s, (tile.first + r) / g.group);
    const std::int64_t lo = std::clamp<std::int64_t>(seen.lo - block.k0, 0, columns);
    const std::int64_t hi = std::clamp<std::int64_t>(seen.hi - block.k0, 0, columns);
    float* row = scores + r * ld;
    if (g.mask.present()) hide_keys(f, s.q0 + (tile.first + r) / g.group, block.k0, lo, hi, row);
    f.rows.softmax(row, columns, lo, hi, g.mask.present() ? Logits{1.0F, 0.0F} : g.logits, stats.block_max + r,
                   stats.block_sum + r);
  }
}

void scale_keys(const Forward& f, const HeadRows& of, const KeyBlock& block, const float* scales, std::int64_t rows,
                float* scores, std::int64_t ld) {
  if (of.scales == nullptr) return;
  const std::int64_t first = block.begin - block.k0;
  for (std::int64_t r = 0; r < rows; ++r) f.rows.mul(scores + r * ld + first, scales + first, block.end - block.begin);
}

void run_block(const Forward& f, const QueryTile& tile, const KeyBlock& block, float* mine) {
  const Geometry& g = f.geometry;
  const std::int64_t nr = f.format.kernels->nr, n = block.end - block.begin, width = panel_rows(f, tile);
  auto* gathered = reinterpret_cast<std::byte*>(mine + f.space.gathered);
  float* scratch = mine + f.space.scratch;
  const auto words = [mine](std::int64_t at) { return reinterpret_cast<std::uint32_t*>(mine + at); };
  const auto sequence = static_cast<std::size_t>(tile.sequence);
  const HeadRows &keys = f.keys[sequence], &values = f.values[sequence];
  pack_rows_outer(f.format, keys, tile.kv_head, block.begin, n, g.head_dim, nr, words(f.space.k), gathered, scratch);
  pack_rows_k(f.format, values, tile.kv_head, block.begin, n, g.value_dim, nr, words(f.space.v), gathered, scratch);
  const LeftRows queries = queries_of(f, tile, mine);
  const std::int64_t key_panel = nr * f.format.steps(g.head_dim), value_panel = nr * f.format.steps(n);
  float* scores = mine + f.space.scores;  // column c is key k0 + c, whatever `begin` is
  Unclean unclean;
  BlockScales scales;
  if (keys.scales != nullptr) {
    const std::int64_t at = block.begin - block.k0;
    read_scales(keys, tile.kv_head, block.begin, n, scales.keys + at);
    read_scales(values, tile.kv_head, block.begin, n, scales.values + at);
    unclean = take_unclean_scales(f, block, scales.values);
  }
  for (std::int64_t first = 0; first < tile.count; first += f.space.strip) {
    const QueryTile strip{tile.sequence, tile.kv_head, tile.first + first, std::min(f.space.strip, tile.count - first)};
    const RowStats stats(mine + f.space.stats + first, f.space.rows);
    float* out = mine + f.space.block_out + first * f.space.value_ld;
    const KeyBlock seen = seen_of(f, strip, block);
    const std::int64_t skipped = seen.begin - block.begin, columns = seen.end - seen.begin;
    float* seen_scores = scores + (seen.begin - seen.k0);
    queries.multiply({.first = first,
                      .m = strip.count,
                      .b = words(f.space.k) + skipped / nr * key_panel,
                      .b_panel_stride = key_panel,
                      .c = seen_scores,
                      .ldc = kKeyBlock,
                      .n = columns});
    scale_keys(f, keys, seen, scales.keys, strip.count, scores, kKeyBlock);
    weights_of_block(f, strip, seen, stats, scores, kKeyBlock);
    scale_keys(f, values, seen, scales.values, strip.count, scores, kKeyBlock);
    const LeftRows weights{f.format, strip.count, columns, std::min(width, strip.count), words(f.space.p)};
    weights.pack(seen_scores, kKeyBlock, scratch);
    const LeftRows::Product product{.first = 0,
                                    .m = strip.count,
                                    .b = words(f.space.v) + f.format.steps(skipped) * nr,
                                    .b_panel_stride = value_panel,
                                    .c = out,
                                    .ldc = f.space.value_ld,
                                    .n = g.value_dim};
    weights.multiply(product);
    if (unclean.empty() && values.scales == nullptr && !f.rows.finite(out, strip.count * f.space.value_ld)) {
      unclean = take_unclean_values(f, tile, block.begin, n, words(f.space.v));
      weights.multiply(product);
    }
    if (!unclean.empty()) add_unclean_values(f, strip, unclean, block.k0, scores, out);
  }
}

void finish_rows(const Forward& f, const QueryTile& tile, const float* maxima, const float* sums, float* out) {
  const Geometry& g = f.geometry;
  const Sequence& s = sequence_of(f, tile);
  for (std::int64_t r = 0; r < tile.count; ++r) {
    const std::int64_t row = s.q0 + (tile.first + r) / g.group;
    const std::int64_t head = tile.kv_head * g.group + (tile.first + r) % g.group;
    float lse = kNothing;
    float* line = out + r * f.space.value_ld;
    if (g.sees_any(s, (tile.first + r) / g.group)) {
      float max = maxima[r], sum = sums[r], factor = 1.0F;
      if (f.sinks.present()) {
        const float sink = f.sinks.data<float>()[head * f.sinks.stride(0)];
        const float both = std::max(max, sink);
        factor = std::exp(max - both);
        sum = sum * factor + std::exp(sink - both);
        max = both;
      }
      f.rows.scale(line, factor / sum, g.value_dim);
      lse = max + std::log(sum);
    }
    write_row(*f.format.kernels, f.out, row, head, line, g.value_dim);
    if (f.lse.present()) f.lse.data<float>()[row * f.lse.stride(0) + head * f.lse.stride(1)] = lse;
  }
}

Geometry::Range tile_keys(const Forward& f, const QueryTile& tile) {
  const Geometry& g = f.geometry;
  const Sequence& s = sequence_of(f, tile);
  return {g.visible(s, tile.first / g.group).lo, g.visible(s, (tile.first + tile.count - 1) / g.group).hi};
}

void clear_sums(const Forward& f, std::int64_t rows, float* max, float* sum, float* out) {
  std::fill_n(max, rows, kNothing);
  std::fill_n(sum, rows, 0.0F);
  std::fill_n(out, rows * f.space.value_ld, 0.0F);
}

namespace {

// A tile, or one block of keys of it, whose sums go to a slot.
struct Piece {
  const QueryTile* tile;
  std::int64_t k0;
  float* slot;  // [rows of a panel] maxima, sums and outputs; null: the whole tile
};

void run_piece(const Forward& f, const Piece& piece, int thread) {
  const QueryTile& tile = *piece.tile;
  float* mine = f.workspace + thread * f.space.total;
  const RowStats stats(mine + f.space.stats, f.space.rows);
  float* out = mine + f.space.out;
  float* block_out = mine + f.space.block_out;
  clear_sums(f, tile.count, stats.max, stats.sum, out);
  std::fill_n(block_out, tile.count * f.space.value_ld, 0.0F);  // the padding of its rows too
  const auto [lo, hi] = tile_keys(f, tile);
  if (lo < hi) pack_queries(f, tile, mine);
  const auto block_at = [lo = lo, hi = hi](std::int64_t k0) {
    return KeyBlock{k0, std::max(k0, lo / kKeyGroup * kKeyGroup), std::min(k0 + kKeyBlock, hi)};
  };
  if (piece.slot != nullptr) {
    run_block(f, tile, block_at(piece.k0), mine);
    std::copy_n(stats.block_max, tile.count, piece.slot);
    std::copy_n(stats.block_sum, tile.count, piece.slot + tile.count);
    std::copy_n(block_out, tile.count * f.space.value_ld, piece.slot + 2 * tile.count);
    return;
  }
  for (std::int64_t k0 = lo / kKeyBlock * kKeyBlock; k0 < hi; k0 += kKeyBlock) {
    run_block(f, tile, block_at(k0), mine);
    f.rows.merge(tile.count, f.geometry.value_dim, f.space.value_ld, stats.block_max, stats.block_sum, block_out,
                 stats.max, stats.sum, out);
  }
  finish_rows(f, tile, stats.max, stats.sum, out);
}

// Joins the blocks of a tile, in the order in which run_piece alone would have.
void join_pieces(const Forward& f, std::span<const Piece> pieces, int thread) {
  const QueryTile& tile = *pieces.front().tile;
  float* mine = f.workspace + thread * f.space.total;
  const RowStats stats(mine + f.space.stats, f.space.rows);
  float* out = mine + f.space.out;
  clear_sums(f, tile.count, stats.max, stats.sum, out);
  for (const Piece& piece : pieces) {
    f.rows.merge(tile.count, f.geometry.value_dim, f.space.value_ld, piece.slot, piece.slot + tile.count,
                 piece.slot + 2 * tile.count, stats.max, stats.sum, out);
  }
  finish_rows(f, tile, stats.max, stats.sum, out);
}

// What is done in a launch: tiles or blocks of them by panels, and few rows directly. What was split is joined after.
struct Work {
  Kept<Piece> pieces;
  Kept<std::pair<std::size_t, std::size_t>> split;  // first piece, number of them
  Kept<DirectPiece> direct, split_direct;
};

void add_direct(const Forward& f, const QueryTile* tiles, bool few, float* slots, std::int64_t& used, Work& work) {
  const std::int64_t runs = direct_runs(f, *tiles);
  if (!few || runs < 2 || used + runs > f.space.by_head.runs) {
    work.direct.push_back({tiles, 0, runs, nullptr});
    return;
  }
  float* mine = slots + used * f.space.by_head.run;
  for (std::int64_t run = 0; run < runs; ++run) work.direct.push_back({tiles, run, 1, mine});
  work.split_direct.push_back({tiles, 0, runs, mine});
  used += runs;
}

void add_panels(const Forward& f, const QueryTile& tile, bool few, float* slots, std::int64_t& used, Work& work) {
  const auto [lo, hi] = tile_keys(f, tile);
  const std::int64_t first = lo / kKeyBlock, blocks = lo < hi ? (hi + kKeyBlock - 1) / kKeyBlock - first : 0;
  if (!few || blocks < 2 || f.space.slot == 0 || used + blocks > kSlots) {
    work.pieces.push_back({&tile, 0, nullptr});
    return;
  }
  work.split.emplace_back(work.pieces.size(), static_cast<std::size_t>(blocks));
  for (std::int64_t b = 0; b < blocks; ++b) {
    work.pieces.push_back({&tile, (first + b) * kKeyBlock, slots + (used + b) * f.space.slot});
  }
  used += blocks;
}

// Where there are too few tiles for the threads, those of decoding are split by blocks of keys. Every block has a
// softmax of its own anyway, so the bits are the same, split or not.
void run_tiles(const Forward& f, ThreadPool& pool) {
  const Kept<QueryTile> tiles = query_tiles(f.sequences, f.geometry, f.space.rows);
  const bool few = pool.num_threads() > 1 && static_cast<std::int64_t>(tiles.size()) < 4 * pool.num_threads();
  const bool few_direct =
      pool.num_threads() > 1 && static_cast<std::int64_t>(tiles.size()) < 4 * pool.num_threads() * f.geometry.kv_heads;
  float* slots = f.workspace + f.space.total * pool.num_threads();
  std::int64_t used = 0, used_direct = 0;
  Work work;
  for (std::size_t t = 0; t < tiles.size();) {  // tiles of all kv heads lie side by side
    if (is_direct(f, tiles[t])) {
      add_direct(f, &tiles[t], few_direct, slots + kSlots * f.space.slot, used_direct, work);
      t += static_cast<std::size_t>(f.geometry.kv_heads);
      continue;
    }
    add_panels(f, tiles[t], few, slots, used, work);
    ++t;
  }
  const auto panels = static_cast<std::int64_t>(work.pieces.size());
  pool.parallel_tasks(panels + static_cast<std::int64_t>(work.direct.size()), [&](std::int64_t task, int thread) {
    if (task < panels) return run_piece(f, work.pieces[static_cast<std::size_t>(task)], thread);
    run_direct(f, work.direct[static_cast<std::size_t>(task - panels)], thread);
  });
  const auto split = static_cast<std::int64_t>(work.split.size());
  pool.parallel_tasks(split + static_cast<std::int64_t>(work.split_direct.size()), [&](std::int64_t task, int thread) {
    if (task >= split) return join_direct(f, work.split_direct[static_cast<std::size_t>(task - split)], thread);
    const auto [begin, count] = work.split[static_cast<std::size_t>(task)];
    join_pieces(f, std::span(work.pieces).subspan(begin, count), thread);
  });
}

bool check_outputs(const PlanDesc& desc, const ForwardPlaces& places, std::string& reason) {
  const auto& q = desc.arg(0);
  const auto& out = desc.arg(places.out);
  const auto& lse = desc.arg(places.lse);
  const auto& sinks = desc.arg(places.sinks);
  const bool fits = is_product_dtype(out.dtype) && out.rank == 3 && out.shape[0] == q.shape[0] &&
                    out.shape[1] == q.shape[1] && out.shape[2] == desc.arg(2).shape[places.kv_rank - 1];
  const bool lse_fits = lse.rank == 0 || (lse.dtype == TERN_F32 && lse.rank == 2 && lse.shape[0] == q.shape[0] &&
                                          lse.shape[1] == q.shape[1]);
  const bool sinks_fit =
      sinks.rank == 0 || (sinks.dtype == TERN_F32 && sinks.rank == 1 && sinks.shape[0] == q.shape[1]);
  if (fits && lse_fits && sinks_fit) return true;
  reason = "the dtype or the shape of out, lse or sinks does not fit q and v";
  return false;
}

}  // namespace

ForwardSpace forward_space(const PanelFormat& format, std::int64_t kv_heads, std::int64_t head_dim,
                           std::int64_t value_dim, std::int64_t most_rows) {
  const GemmKernels& kernels = *format.kernels;
  ForwardSpace s{};
  const std::int64_t panel = format.by_rows ? kTileRows : kernels.mr;
  const std::int64_t most = format.by_rows ? kMatrixRows : kernels.mr * kTilePanels;
  s.rows = std::min(most, round_up(std::max<std::int64_t>(most_rows, 1), panel));
  s.strip = 2 * panel;
  s.value_ld = round_up(value_dim, 16);
  s.slot = most_rows <= kernels.mr ? kernels.mr * (s.value_ld + 2) : 0;
  std::int64_t at = 0;
  const auto take = [&at](std::int64_t floats) {
    const std::int64_t begin = at;
    at += round_up(floats, 16);
    return begin;
  };
  s.q = take(LeftRows::size(format, s.rows, head_dim));
  s.k = take(kKeyBlock * format.steps(head_dim));
  s.v = take(round_up(value_dim, kernels.nr) * format.steps(kKeyBlock));
  s.p = take(LeftRows::size(format, s.strip, kKeyBlock));
  s.scores = take(s.strip * kKeyBlock);
  s.block_out = take(s.rows * s.value_ld);
  s.out = take(s.rows * s.value_ld);
  s.stats = take(6 * s.rows);
  s.gathered = take(std::max(kKeyBlock, s.rows) * std::max(head_dim, value_dim));
  s.scratch = take(kPackScratch);
  s.by_head = direct_space(kv_heads, head_dim, value_dim, most_rows);
  s.direct = take(s.by_head.total_sums + s.by_head.run);
  s.total = at;
  return s;
}

bool forward_supports(const PlanDesc& desc, const ForwardPlaces& places, std::string& reason) {
  const bool has_codes = places.has_codes;
  return check_attention({desc.arg(0), desc.arg(1), desc.arg(2), desc.arg(places.mask), places.kv_rank, has_codes},
                         reason) &&
         check_outputs(desc, places, reason);
}

std::uint64_t forward_workspace(const PlanDesc& desc) {
  const auto &q = desc.arg(0), &k = desc.arg(1), &v = desc.arg(2);
  const PanelFormat format = forward_format(desc.target, q.dtype, k.dtype, v.dtype, q.shape[2]);
  const std::int64_t kv_heads = k.shape[k.rank - 2], group = q.shape[1] / kv_heads;
  const std::int64_t most_rows = desc.attrs<tern_attention_attrs>().max_seqlen_q * group;  // both ops' are alike
  const ForwardSpace space = forward_space(format, kv_heads, q.shape[2], v.shape[v.rank - 1], most_rows);
  const std::int64_t slots = kSlots * space.slot + space.by_head.runs * space.by_head.run;
  return static_cast<std::uint64_t>(space.total * desc.num_threads + slots) * 4;
}

void run_forward(const Forward& f, const Kept<std::int32_t>& cu_q, ThreadPool& pool) {
  fill_outside(f.out, cu_q, 0.0F);
  fill_outside(f.lse, cu_q, kNothing);
  run_tiles(f, pool);
}

}  // namespace tern::cpu
