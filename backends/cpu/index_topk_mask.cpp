// index_topk_mask: tiles of query rows with all their heads meet blocks of keys as panels; each row's sums over heads
// lie side by side until its last key, and then the threshold is found in time proportional to the keys.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/cpu/attention_tile.h"
#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/matmul_operand.h"

namespace tern::cpu {
namespace {

// One thread's memory, in floats.
struct Space {
  std::int64_t rows;  // of queries in a tile
  std::int64_t keys;  // that a row can see
  std::int64_t q, k, scores, gathered, scratch, weights, sums, order, total;
};

Space space_of(const PanelFormat& format, std::int64_t heads, std::int64_t dim, std::int64_t keys) {
  Space s{};
  const std::int64_t mr = format.kernels->mr;
  s.rows = std::max<std::int64_t>(1, mr * kTilePanels / heads);
  s.keys = keys;
  const std::int64_t lines = round_up(s.rows * heads, mr);
  std::int64_t at = 0;
  const auto take = [&at](std::int64_t floats) {
    const std::int64_t begin = at;
    at += round_up(floats, 16);
    return begin;
  };
  s.q = take(lines * format.steps(dim));
  s.k = take(kKeyBlock * format.steps(dim));
  s.scores = take(lines * kKeyBlock);
  s.gathered = take(std::max(kKeyBlock, lines) * dim);
  s.scratch = take(kPackScratch);
  s.weights = take(heads);
  s.sums = take(s.rows * round_up(keys, kKeyBlock));
  s.order = take(keys);
  s.total = at;
  return s;
}

// Rows [first, first + count) of a sequence.
struct Tile {
  std::size_t sequence;
  std::int64_t first, count;
};

struct Choice {
  const PanelFormat format;
  const Space space;
  std::int64_t heads, dim, topk;
  HeadRows queries;
  const TensorView& weights;
  const TensorView& mask;
  float* workspace;
  Kept<Sequence> sequences;
  Kept<HeadRows> keys;  // by sequence

  [[nodiscard]] float* of_thread(int thread) const { return workspace + thread * space.total; }
  // How many keys row i of a tile sees.
  [[nodiscard]] std::int64_t visible(const Tile& tile, std::int64_t i) const {
    const Sequence& s = sequences[tile.sequence];
    return std::clamp<std::int64_t>(tile.first + i + s.len_k - s.len_q + 1, 0, s.len_k);
  }
  [[nodiscard]] std::int64_t row_of(const Tile& tile, std::int64_t i) const {
    return sequences[tile.sequence].q0 + tile.first + i;
  }
  // Keys whose scores decide anything in a tile: 0 where every row is shown all that it sees.
  [[nodiscard]] std::int64_t scored(const Tile& tile) const {
    const std::int64_t most = visible(tile, tile.count - 1);
    return most > topk ? most : 0;
  }
};

void pack_tile(const Choice& c, const Tile& tile, float* mine) {
  const std::int64_t lines = tile.count * c.heads, width = std::min<std::int64_t>(lines, c.format.kernels->mr);
  float* rows = mine + c.space.gathered;
  for (std::int64_t r = 0; r < lines; ++r) {
    read_row(*c.format.kernels, c.queries, c.row_of(tile, r / c.heads), r % c.heads, c.dim, rows + r * c.dim);
  }
  GemmOperand operand;
  operand.data = rows;
  operand.stride_outer = c.dim;
  operand.stride_k = 1;
  pack_panels(c.format, operand, 0, lines, 0, c.dim, width, reinterpret_cast<std::uint32_t*>(mine + c.space.q),
              width * c.format.steps(c.dim), mine + c.space.scratch);
}

// Some keys of a tile.
struct Block {
  const Tile& tile;
  std::int64_t k0, n;
};

// Sums over heads of a tile's rows for a block of keys, to sums[row * keys + key]. `queries` are packed.
void score_block(const Choice& c, const Block& block, const float* queries, float* mine, float* sums) {
  const auto& [tile, k0, n] = block;
  const std::int64_t lines = tile.count * c.heads, width = std::min<std::int64_t>(lines, c.format.kernels->mr);
  auto* packed = reinterpret_cast<std::uint32_t*>(mine + c.space.k);
  pack_rows_outer(c.format, c.keys[tile.sequence], 0, k0, n, c.dim, c.format.kernels->nr, packed,
                  reinterpret_cast<std::byte*>(mine + c.space.gathered), mine + c.space.scratch);
  float* scores = mine + c.space.scores;
  multiply_panels(c.format, c.dim, reinterpret_cast<const std::uint32_t*>(queries), width, packed, scores, kKeyBlock,
                  lines, n, false);
  float* weights = mine + c.space.weights;
  for (std::int64_t i = 0; i < tile.count; ++i) {
    const std::int64_t at = c.row_of(tile, i) * c.weights.stride(0);
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const std::int64_t offset = (at + h * c.weights.stride(1)) * dtype_size(c.weights.dtype());
      c.format.kernels->widen(c.weights.dtype(), c.weights.data<const std::byte>() + offset, weights + h, 1);
    }
    float* sum = sums + i * round_up(c.space.keys, kKeyBlock) + k0;
    std::fill_n(sum, n, 0.0F);
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const float* score = scores + (i * c.heads + h) * kKeyBlock;
      const float weight = weights[h];
      for (std::int64_t j = 0; j < n; ++j) sum[j] += weight * (score[j] > 0.0F ? score[j] : 0.0F);
    }
  }
}

// A row of the mask from the sums of the keys that it sees.
void choose_row(const Choice& c, std::int64_t row, std::int64_t visible, float* sums, float* order) {
  auto* line = c.mask.data<std::uint8_t>() + row * c.mask.stride(0);
  const std::int64_t stride = c.mask.stride(1);
  const bool all = visible <= c.topk;
  for (std::int64_t j = 0; j < c.mask.dim(1); ++j) line[j * stride] = all && j < visible ? 1 : 0;
  if (all) return;
  for (std::int64_t j = 0; j < visible; ++j) {
    if (std::isnan(sums[j])) sums[j] = -std::numeric_limits<float>::infinity();
  }
  std::copy_n(sums, visible, order);
  std::nth_element(order, order + c.topk - 1, order + visible, std::greater<>());
  const float least = order[c.topk - 1];
  std::int64_t equal = c.topk - std::count_if(sums, sums + visible, [least](float s) { return s > least; });
  for (std::int64_t j = 0; j < visible; ++j) {
    if (sums[j] < least || (sums[j] == least && equal-- <= 0)) continue;
    line[j * stride] = 1;
  }
}

void choose_tile(const Choice& c, const Tile& tile, float* mine) {
  for (std::int64_t i = 0; i < tile.count; ++i) {
    choose_row(c, c.row_of(tile, i), c.visible(tile, i), mine + c.space.sums + i * round_up(c.space.keys, kKeyBlock),
               mine + c.space.order);
  }
}

// Blocks of keys lie at the same places however the work is shared, and a sum takes its heads in order: so do bits.
void run_choice(const Choice& c, ThreadPool& pool) {
  Kept<Tile> tiles;
  for (std::size_t s = 0; s < c.sequences.size(); ++s) {
    for (std::int64_t first = 0; first < c.sequences[s].len_q; first += c.space.rows) {
      tiles.push_back({s, first, std::min(c.space.rows, c.sequences[s].len_q - first)});
    }
  }
  const auto block_at = [](const Tile& tile, std::int64_t k0, std::int64_t keys) {
    return Block{tile, k0, std::min(kKeyBlock, keys - k0)};
  };
  if (static_cast<int>(tiles.size()) >= pool.num_threads()) {
    pool.parallel_tasks(static_cast<std::int64_t>(tiles.size()), [&](std::int64_t task, int thread) {
      const Tile& tile = tiles[static_cast<std::size_t>(task)];
      float* mine = c.of_thread(thread);
      const std::int64_t keys = c.scored(tile);
      if (keys > 0) pack_tile(c, tile, mine);
      for (std::int64_t k0 = 0; k0 < keys; k0 += kKeyBlock) {
        score_block(c, block_at(tile, k0, keys), mine + c.space.q, mine, mine + c.space.sums);
      }
      choose_tile(c, tile, mine);
    });
    return;
  }
  float* shared = c.of_thread(0);
  for (const Tile& tile : tiles) {  // fewer than threads, which share each one's blocks
    const std::int64_t keys = c.scored(tile);
    if (keys > 0) pack_tile(c, tile, shared);
    pool.parallel_tasks((keys + kKeyBlock - 1) / kKeyBlock, [&](std::int64_t block, int thread) {
      const std::int64_t k0 = block * kKeyBlock;
      score_block(c, block_at(tile, k0, keys), shared + c.space.q, c.of_thread(thread), shared + c.space.sums);
    });
    choose_tile(c, tile, shared);
  }
}

constexpr int kQ = TERN_INDEX_TOPK_MASK_Q, kWeights = TERN_INDEX_TOPK_MASK_WEIGHTS, kKeys = TERN_INDEX_TOPK_MASK_K;
static_assert(int{TERN_INDEX_TOPK_MASK_PAGED_Q} == kQ && int{TERN_INDEX_TOPK_MASK_PAGED_WEIGHTS} == kWeights &&
              int{TERN_INDEX_TOPK_MASK_PAGED_K_CACHE} == kKeys);

bool supports_form(const PlanDesc& desc, int rank, int mask, std::string& reason) {
  const auto& q = desc.arg(kQ);
  return Check(desc, reason)
      .floats({kQ, kWeights, kKeys})
      .dtype(mask, TERN_BOOL)
      .rank(kQ, 3)
      .rank(kWeights, 2)
      .rank(kKeys, rank)
      .rank(mask, 2)
      .dim(kWeights, 0, q.shape[0])
      .dim(kWeights, 1, q.shape[1])
      .dim(kKeys, rank - 1, q.shape[2])
      .dim(mask, 0, q.shape[0])
      .ok();
}
bool supports(const PlanDesc& desc, std::string& reason) {
  return supports_form(desc, 2, TERN_INDEX_TOPK_MASK_MASK, reason);
}
bool supports_paged(const PlanDesc& desc, std::string& reason) {
  return supports_form(desc, 4, TERN_INDEX_TOPK_MASK_PAGED_MASK, reason);
}

PanelFormat format_of(Target target, tern_dtype q, tern_dtype k) {
  return panel_format(target, attention_compute(q, k, k));
}

template <int kMask>
std::uint64_t workspace(const PlanDesc& desc) {
  const auto& q = desc.arg(kQ);
  const PanelFormat format = format_of(desc.target, q.dtype, desc.arg(kKeys).dtype);
  const Space space = space_of(format, q.shape[1], q.shape[2], desc.arg(kMask).shape[1]);
  return static_cast<std::uint64_t>(space.total * desc.num_threads) * sizeof(float);
}

// Without sequences.
template <typename Attrs>
Choice make_choice(const KernelArgs& args, const TensorView& mask) {
  const TensorView& q = args[kQ];
  const PanelFormat format = format_of(args.target, q.dtype(), args[kKeys].dtype());
  return {format,
          space_of(format, q.dim(1), q.dim(2), mask.dim(1)),
          q.dim(1),
          q.dim(2),
          args.attr<Attrs>().topk,
          head_rows(q, 0),
          args[kWeights],
          mask,
          reinterpret_cast<float*>(args.workspace),
          {},
          {}};
}

void clear_outside(const TensorView& mask, const Kept<std::int32_t>& cu_q) {
  const std::int64_t end = cu_q.empty() ? 0 : cu_q.back();
  for (std::int64_t row = end; row < mask.dim(0); ++row) {
    auto* line = mask.data<std::uint8_t>() + row * mask.stride(0);
    for (std::int64_t j = 0; j < mask.dim(1); ++j) line[j * mask.stride(1)] = 0;
  }
}

void run(const KernelArgs& args) {
  const TensorView &k = args[kKeys], &mask = args[TERN_INDEX_TOPK_MASK_MASK];
  auto c = make_choice<tern_index_topk_mask_attrs>(args, mask);
  const auto cu_q = read_lengths(args, 0, TERN_INDEX_TOPK_MASK_CU_SEQLENS_Q);
  const auto cu_k = read_lengths(args, 1, TERN_INDEX_TOPK_MASK_CU_SEQLENS_K);
  check_cumulated(cu_q, args[kQ].dim(0), "cu_seqlens_q");
  check_cumulated(cu_k, k.dim(0), "cu_seqlens_k");
  c.sequences = packed_sequences(cu_q, cu_k);
  check_keys(c.sequences, true, k.dim(0), mask, "cu_seqlens_k");
  for (const Sequence& sequence : c.sequences) {
    HeadRows rows;
    rows.dtype = k.dtype();
    rows.data = k.data<std::byte>() + sequence.k0 * k.stride(0) * dtype_size(k.dtype());
    rows.stride_row = k.stride(0);
    rows.stride_element = k.stride(1);
    c.keys.push_back(rows);
  }
  clear_outside(mask, cu_q);
  run_choice(c, *args.pool);
}

void run_paged(const KernelArgs& args) {
  const TensorView &cache = args[kKeys], &mask = args[TERN_INDEX_TOPK_MASK_PAGED_MASK];
  const TensorView& table = args[TERN_INDEX_TOPK_MASK_PAGED_BLOCK_TABLE];
  auto c = make_choice<tern_index_topk_mask_paged_attrs>(args, mask);
  const auto cu_q = read_lengths(args, 0, TERN_INDEX_TOPK_MASK_PAGED_CU_SEQLENS_Q);
  const auto kv_lens = read_lengths(args, 1, TERN_INDEX_TOPK_MASK_PAGED_KV_LENS);
  check_cumulated(cu_q, args[kQ].dim(0), "cu_seqlens_q");
  for (std::size_t s = 0; s + 1 < cu_q.size() && s < kv_lens.size(); ++s) {
    c.sequences.push_back({cu_q[s], cu_q[s + 1] - cu_q[s], 0, kv_lens[s]});
  }
  check_keys(c.sequences, true, table.dim(1) * cache.dim(1), mask, "kv_lens");
  for (std::size_t s = 0; s < c.sequences.size(); ++s) {
    const auto number = static_cast<std::int64_t>(s);
    if (c.sequences[s].len_q > 0) check_pages(cache, table, number, {0, c.sequences[s].len_k});
    c.keys.push_back(paged_rows(cache, table, number));
  }
  clear_outside(mask, cu_q);
  run_choice(c, *args.pool);
}

constexpr std::array kKernels = {
    KernelEntry{TERN_OP_INDEX_TOPK_MASK, "panels", supports, workspace<TERN_INDEX_TOPK_MASK_MASK>, nullptr, run},
    KernelEntry{TERN_OP_INDEX_TOPK_MASK_PAGED, "panels", supports_paged, workspace<TERN_INDEX_TOPK_MASK_PAGED_MASK>,
                nullptr, run_paged},
};

}  // namespace

KernelList index_topk_mask_kernels() { return kKernels; }

}  // namespace tern::cpu
