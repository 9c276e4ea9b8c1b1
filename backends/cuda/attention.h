// What attention, its backward and attention_paged share: checks and the numbers that kernels get.
#pragma once

#include <algorithm>

#include "backends/cuda/kernels.h"

namespace tern::cuda {

// The struct AttentionSizes of cu/attention.cuh. Strides are in elements; k and v have {block, row, head, feature},
// block 0 where keys lie end to end.
struct AttentionSizes {
  std::int64_t heads, kv_heads, head_dim, value_dim, sequences, q_rows, k_rows;
  std::int64_t q[3], k[4], v[4], sinks, mask[2], out[3], lse[2], table[2], block_size;
  std::int64_t k_scale[4], v_scale[4];  // of a cache of 8 bits
  std::int64_t parts, part_keys;
  std::int64_t dout[3], dq[3], dk[3], dv[3], dsinks;
  float scale, softcap;
  std::int32_t causal, window, window_right, chunk, has_mask;
  std::int32_t tile, tile_keys;          // of the kernels in plain fp32
  std::int32_t head_pitch, value_pitch;  // of their rows in shared memory
};

// The attributes of the three ops are alike. Windows and chunks that no sequence reaches become small enough that a
// kernel may add a position to them.
template <typename Attrs>
void take_attrs(const Attrs& attrs, AttentionSizes& sizes) {
  sizes.scale = attrs.scale;
  sizes.softcap = attrs.softcap;
  sizes.causal = attrs.causal;
  constexpr std::int32_t kMost = 1 << 30;
  sizes.window = std::min(attrs.window, kMost);
  sizes.window_right = std::min(attrs.window_right, kMost);
  sizes.chunk = std::min(attrs.chunk, kMost);
}

// More tiles than sequences can have, of `rows` rows with `per_row` entries, and what lies behind the last.
[[nodiscard]] inline std::int64_t most_tiles(std::int64_t rows, std::int64_t per_row, std::int64_t entries,
                                             std::int64_t sequences) {
  return parts_of(rows * per_row, entries) + sequences + 1;
}

[[nodiscard]] inline bool is_code(tern_dtype dtype) { return dtype == TERN_I8 || dtype == TERN_F8_E4M3; }

// q, k, v, mask and sinks, whose numbers of the op these are.
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
  check.that(k.shape[heads] <= 65535, "more kv_heads than a grid has");
}
// Of a list of lengths or bounds.
inline void check_list(Check& check, const PlanDesc& desc, int arg) {
  const auto& list = desc.arg(arg);
  check.that(list.rank == 1 && (list.shape[0] < 2 || list.strides[0] == 1), "lengths don't lie side by side");
}

// What the kernels of the matrix units ask of a tensor: 16 bytes at once, of `dtype` in 16 bits or of codes.
inline void check_vectors(Check& check, const PlanDesc& desc, int arg, tern_dtype dtype) {
  const auto& tensor = desc.arg(arg);
  const int vector = is_code(dtype) ? 16 : 8;
  bool good = tensor.dtype == dtype && (dtype == TERN_BF16 || dtype == TERN_F16 || is_code(dtype));
  for (int d = 0; d + 1 < tensor.rank; ++d) good = good && tensor.strides[d] % vector == 0;
  const int last = tensor.rank - 1;
  good = good && tensor.shape[last] % vector == 0 && tensor.shape[last] > 0;
  good = good && (tensor.strides[last] == 1 || tensor.shape[last] == 1);
  check.that(good,
             "the matrix units take bf16 or f16 alone, of one kind, whose heads are dense and of whole eights, "
             "or codes of 8 bits, whose heads are of whole sixteens");
}

// k's or v's strides.
inline void take_key_strides(const TensorView& tensor, bool paged, std::int64_t (&strides)[4]) {
  strides[0] = paged ? tensor.stride(0) : 0;
  for (int d = 1; d < 4; ++d) strides[d] = tensor.stride(paged ? d : d - 1);
}

}  // namespace tern::cuda
