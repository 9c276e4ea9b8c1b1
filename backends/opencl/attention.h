// What attention, its backward and attention_paged share: tiles, checks and the numbers that kernels get.
#pragma once

#include "backends/opencl/rows.h"

namespace tern::opencl {

// The struct AttentionSizes of cl/attention_tile.clh.
struct AttentionSizes {
  std::int64_t heads, kv_heads, head_dim, value_dim, sequences, q_rows, k_rows;
  std::int64_t q[3], k[4], v[4], sinks, mask[2], out[3], lse[2], block_size, max_blocks;
  std::int64_t k_scale[3], v_scale[3];  // of a cache of 8 bits
  std::int64_t parts, part_keys;
  std::int64_t dout[3], dq[3], dk[3], dv[3], dsinks;
  float scale, softcap;
  std::int32_t causal, window, window_right, chunk;
  std::int32_t head_pitch, value_pitch;
  std::int32_t has_sinks, has_mask, has_lse;
};

// The four that the attributes of the three ops begin with or end in: they are alike.
template <typename Attrs>
void take_attrs(const Attrs& attrs, AttentionSizes& sizes) {
  sizes.scale = attrs.scale;
  sizes.softcap = attrs.softcap;
  sizes.causal = attrs.causal;
  sizes.window = attrs.window;
  sizes.window_right = attrs.window_right;
  sizes.chunk = attrs.chunk;
}

// Tiles of entries (cl/attention_tile.clh) by keys, and micro-tiles of `rows` by `width`.
struct AttentionTile {
  std::int64_t width = 16;    // W
  std::int64_t group = 1;     // GROUP
  std::int64_t entries = 32;  // TILE
  std::int64_t keys = 16;     // KEYS
  std::int64_t rows = 4;      // RQ: of a micro-tile
  bool direct = false;        // few entries: keys are read where they lie
};

inline Defines& tile_defines(Defines& defines, const AttentionTile& tile) {
  return defines.set("W", tile.width)
      .set("GROUP", tile.group)
      .set("TILE", tile.entries)
      .set("KEYS", tile.keys)
      .set("RQ", tile.rows)
      .set("DIRECT", tile.direct ? 1 : 0);
}
inline void take_pitches(const AttentionTile& tile, AttentionSizes& sizes) {
  sizes.head_pitch = static_cast<std::int32_t>(round_up(sizes.head_dim, tile.width));
  sizes.value_pitch = static_cast<std::int32_t>(round_up(sizes.value_dim, tile.width));
}

// More tiles than sequences can have, of `rows` rows with `per_row` entries, and what lies behind the last.
[[nodiscard]] inline std::int64_t most_tiles(std::int64_t rows, std::int64_t per_row, std::int64_t entries,
                                             std::int64_t sequences) {
  return parts_of(rows * per_row, entries) + sequences + 1;
}

[[nodiscard]] inline bool is_code(tern_dtype dtype) { return dtype == TERN_I8 || dtype == TERN_F8_E4M3; }

// q, k, v and mask, whose numbers of the op these are.
struct AttentionArgs {
  int q, k, v, mask, sinks;
  int kv_rank;                     // of k and v
  int k_scale = -1, v_scale = -1;  // of a cache; -1: the op has none
};
// Keys and values in 8 bits have scales, nothing else has.
inline void check_scales(Check& check, const PlanDesc& desc, const AttentionArgs& at) {
  const auto& k = desc.arg(at.k);
  for (const int scale : {at.k_scale, at.v_scale}) {
    check.that(desc.present(scale) == is_code(k.dtype), "scales come with caches of 8 bits");
    check.dtype(scale, TERN_F32).rank(scale, 3);
    for (int d = 0; d < 3; ++d) check.dim(scale, d, k.shape[d]);
  }
}
inline void check_attention(Check& check, const PlanDesc& desc, const AttentionArgs& at) {
  const auto &q = desc.arg(at.q), &k = desc.arg(at.k), &v = desc.arg(at.v);
  const int heads = at.kv_rank - 2;  // the dimension of k and v
  check.floats({at.q}).rank(at.q, 3).rank(at.k, at.kv_rank).rank(at.v, at.kv_rank);
  if (at.k_scale >= 0) check_scales(check, desc, at);
  if (at.k_scale < 0 || !is_code(k.dtype)) check.floats({at.k, at.v});
  for (int d = 0; d <= heads; ++d) check.dim(at.v, d, k.shape[d]);
  check.that(k.dtype == v.dtype, "k and v differ in dtype");
  check.dim(at.k, heads + 1, q.shape[2]);
  check.that(k.shape[heads] > 0 && q.shape[1] % std::max<std::int64_t>(k.shape[heads], 1) == 0,
             "heads must be a multiple of kv_heads");
  check.dtype(at.mask, TERN_BOOL).rank(at.mask, 2).dim(at.mask, 0, q.shape[0]);
  check.dtype(at.sinks, TERN_F32).rank(at.sinks, 1).dim(at.sinks, 0, q.shape[1]);
}

}  // namespace tern::opencl
