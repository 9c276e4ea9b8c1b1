// index_topk_mask and index_topk_mask_paged. A work-group takes one query row: scores into its part of the workspace,
// then the topk-th largest by the bits of its score, highest first, then the mask.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/sequences.clh"

typedef struct {
  long rows, heads, dim, sequences, topk, mask_keys, groups;
  long q[3], weights[2], k[3], mask[2], block_size, max_blocks;
} IndexSizes;

// A score's place in the order of scores, as a number; NaN is -infinity.
static inline uint order_of(float score) {
  const uint bits = as_uint(isnan(score) ? -INFINITY : score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// How many of the counts of the group's work-items lie before this one's, and all of them.
typedef struct {
  int before, all;
} Counted;
static inline Counted counted_of(int mine, local int* room) {
  Counted out = {0, mine};
#if GROUP > 1
  const int item = get_local_id(0);
  MEET;
  room[item] = mine;
  MEET;
  out.all = 0;
  for (int i = 0; i < GROUP; ++i) {
    if (i == item) out.before = out.all;
    out.all += room[i];
  }
#endif
  return out;
}

kernel IN_GROUP void index_topk_mask(INPUT(q), INPUT(weights), INPUT(k), INPUT(table), INPUT(bounds_q),
                                     INPUT(bounds_k), OUTPUT(mask), OUTPUT(scores), const IndexSizes s) {
  local int room[GROUP];
  const int item = get_local_id(0);
  global uint* const orders = AS_OUT(uint, scores) + (long)get_group_id(0) * s.mask_keys;
  for (long row = get_group_id(0); row < s.rows; row += s.groups) {
    const Sequence own = sequence_of(row, AS(int, bounds_q), s.sequences);
    long keys = 0;
    long first_key = 0;
    if (own.number >= 0) {
#if PAGED
      keys = AS(int, bounds_k)[own.number];
#else
      first_key = AS(int, bounds_k)[own.number];
      keys = AS(int, bounds_k)[own.number + 1] - first_key;
#endif
    }
    const long sees = own.number < 0 ? 0 : clamp(row - own.begin + keys - (own.end - own.begin) + 1, 0L, min(keys, s.mask_keys));
    const bool all = sees <= s.topk;
    // Each work-item has neighbouring keys, so that ties go by rising key.
    const long share = (sees + GROUP - 1) / GROUP;
    const long begin = min(item * share, sees);
    const long end = min(begin + share, sees);
    for (long j = begin; j < end && !all; ++j) {
#if PAGED
      const long block = AS(int, table)[own.number * s.max_blocks + j / s.block_size];
      const long at = block * s.k[0] + j % s.block_size * s.k[1];
#else
      const long at = (first_key + j) * s.k[0];
#endif
      float score = 0.0f;
      for (long head = 0; head < s.heads; ++head) {
        floatW products = (floatW)0.0f;
        for (long d = 0; d < s.dim; d += W) {
          products += FETCH(k, at + d * s.k[2], s.k[2], s.dim - d) *
                      FETCH(q, row * s.q[0] + head * s.q[1] + d * s.q[2], s.q[2], s.dim - d);
        }
        const float dot_product = sum_of(products);
        score += GET(weights, row * s.weights[0] + head * s.weights[1]) * (dot_product > 0.0f ? dot_product : 0.0f);
      }
      orders[j] = order_of(score);
    }
    uint least = 0;  // the topk-th largest
    for (int bit = 31; bit >= 0 && !all; --bit) {
      const uint tried = least | (1u << bit);
      int mine = 0;
      for (long j = begin; j < end; ++j) mine += orders[j] >= tried ? 1 : 0;
      if (counted_of(mine, room).all >= s.topk) least = tried;
    }
    int larger = 0;
    int equal = 0;
    for (long j = begin; j < end && !all; ++j) {
      larger += orders[j] > least ? 1 : 0;
      equal += orders[j] == least ? 1 : 0;
    }
    const int taken = counted_of(larger, room).all;
    long ties = s.topk - taken - counted_of(equal, room).before;  // that this item may take
    global uchar* const row_of_mask = AT(mask) + row * s.mask[0];
    for (long j = begin; j < end; ++j) {
      bool shown = all || orders[j] > least;
      if (!shown && orders[j] == least) shown = ties-- > 0;
      row_of_mask[j * s.mask[1]] = shown ? 1 : 0;
    }
    for (long j = sees + item; j < s.mask_keys; j += GROUP) row_of_mask[j * s.mask[1]] = 0;
    MEET;
  }
}
