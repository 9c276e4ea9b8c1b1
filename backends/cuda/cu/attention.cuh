// What attention and its backward share: sequences cut into tiles, and which keys a row sees.
//
// An entry is a query row of one of the heads that read a kv head: entry e of a sequence is row e / group, head e %
// group of that kv head's. So heads that share keys share a tile, and a decoding row is a tile of `group` entries.
#pragma once

#include "backends/cuda/cu/common.cuh"

// AttentionSizes of attention.h.
struct AttentionSizes {
  long heads, kv_heads, head_dim, value_dim, sequences, q_rows, k_rows;
  long q[3], k[4], v[4], sinks, mask[2], out[3], lse[2], table[2], block_size;
  long k_scale[4], v_scale[4];  // block, row and head; no feature
  long parts, part_keys;
  long dout[3], dq[3], dk[3], dv[3], dsinks;
  float scale, softcap;
  int causal, window, window_right, chunk, has_mask;
  int tile, tile_keys;
  int head_pitch, value_pitch;
};

DEVICE float infinity() { return __int_as_float(0x7f800000); }
DEVICE float not_a_number() { return __int_as_float(0x7fc00000); }
DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }

struct Place {
  int sequence;  // -1: rows outside of every sequence
  int first_row, rows;
  int tile;
};

// The tile's sequence, of sequences that each have ceil(entries / tile_entries) tiles. `bounds` are those of what is
// cut; behind the last one a sequence follows that has nothing to read, up to `all`. Every thread of a warp calls it:
// the lanes look at a sequence each.
DEVICE Place place_of(int tile, int per_row, int tile_entries, const int* bounds, int all, int sequences) {
  const int lane = threadIdx.x % 32;
  for (int base = 0; base < sequences; base += 32) {
    const int i = base + lane;
    const int begin = i < sequences ? bounds[i] : 0;
    const int rows = i < sequences ? bounds[i + 1] - begin : 0;
    const int tiles = (rows * per_row + tile_entries - 1) / tile_entries;
    int sum = tiles;  // of the lanes up to this one
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    const int some = __shfl_sync(0xffffffffu, sum, 31);
    if (tile < some) {
      int its = sum <= tile ? 1 : 0;  // the lanes whose tiles lie before
      for (int step = 16; step > 0; step /= 2) its += __shfl_xor_sync(0xffffffffu, its, step);
      const int before = __shfl_sync(0xffffffffu, sum - tiles, its);
      const int first_row = __shfl_sync(0xffffffffu, begin, its);
      return {base + its, first_row, __shfl_sync(0xffffffffu, rows, its), tile - before};
    }
    tile -= some;
  }
  const int first_row = sequences > 0 ? bounds[sequences] : 0;
  return {-1, first_row, all - first_row, tile};
}

// Keys from `first` to before `last`: what rows at the positions from `low` to `high` may see beside a mask. Positions
// and what the attributes make of them fit an int: the host sees to it.
struct Span {
  int first, last;
};
DEVICE Span keys_of(int low, int high, int keys, const AttentionSizes& s) {
  int first = 0, last = keys;
  const auto at_most = [&](int x) { last = x < last ? x : last; };
  const auto at_least = [&](int x) { first = x > first ? x : first; };
  if (s.causal != 0) at_most(high + 1);
  if (s.window_right > 0) at_most(high + s.window_right);
  if (s.chunk > 0) at_most((high / s.chunk + 1) * s.chunk);
  if (s.window > 0) at_least(low - s.window + 1);
  if (s.chunk > 0) at_least(low / s.chunk * s.chunk);
  last = last > 0 ? last : 0;
  return {first < last ? first : last, last};
}
// The positions that see one of the keys from `first` to before `last`, beside a mask: of `rows` rows, the last of
// which is that of the last of `keys`.
DEVICE Span positions_of(int first, int last, int rows, int keys, const AttentionSizes& s) {
  int from = keys - rows, to = keys;
  const auto at_most = [&](int x) { to = x < to ? x : to; };
  const auto at_least = [&](int x) { from = x > from ? x : from; };
  if (s.causal != 0) at_least(first);
  if (s.window_right > 0) at_least(first - s.window_right + 1);
  if (s.chunk > 0) at_least(first / s.chunk * s.chunk);
  if (s.window > 0) at_most(last - 1 + s.window);
  if (s.chunk > 0) at_most(((last - 1) / s.chunk + 1) * s.chunk);
  return {from, to};
}
// Whether rows at positions from `low` to `high` all see all keys from `first` to before `last`.
DEVICE bool all_see(int low, int high, int first, int last, int keys, const AttentionSizes& s) {
  if (s.has_mask != 0 || last > keys) return false;
  if (s.causal != 0 && last - 1 > low) return false;
  if (s.window > 0 && first <= high - s.window) return false;
  if (s.window_right > 0 && last - 1 >= low + s.window_right) return false;
  return s.chunk <= 0 || (first / s.chunk == high / s.chunk && (last - 1) / s.chunk == low / s.chunk);
}
// Whether a row, of all query rows, sees key j of its sequence: `shown` is what it sees beside the mask.
DEVICE bool sees(const Span& shown, int j, long row, const Tensor& mask, const AttentionSizes& s) {
  if (j < shown.first || j >= shown.last) return false;
  return s.has_mask == 0 || mask.at[row * s.mask[0] + j * s.mask[1]] != 0;
}
DEVICE bool sees_any(const Span& shown, long row, const Tensor& mask, const AttentionSizes& s) {
  if (s.has_mask == 0) return shown.first < shown.last;
  for (int j = shown.first; j < shown.last; ++j) {
    if (sees(shown, j, row, mask, s)) return true;
  }
  return false;
}

// Keys are cut into parts, a block each: 16 of part_keys, 16 of twice as many, and so on. So short sequences have parts
// enough, long ones not too many, and where parts begin depends on nothing but the key's number.
CONSTANT int kPartsOfSize = 16;
DEVICE Span keys_of_part(int part, const AttentionSizes& s) {
  if (s.part_keys == 0) return {0, 0x7fffffff};  // none is cut
  const int level = part / kPartsOfSize;
  const long size = s.part_keys << level;
  const long first = kPartsOfSize * (size - s.part_keys) + part % kPartsOfSize * size;
  return {static_cast<int>(first), static_cast<int>(first + size)};
}

// Where the keys of one sequence and kv head lie.
struct KeyPlace {
  const int* table;  // the sequence's blocks; null: keys lie end to end
  long table_stride;
  int block_size, first_key, kv_head;
  // Where row j begins, in elements.
  DEVICE_MEMBER long row(const long (&strides)[4], int j) const {
    const long head = kv_head * strides[2];
    if (table == nullptr) return (static_cast<long>(first_key) + j) * strides[1] + head;
    const uint block = static_cast<uint>(j) / static_cast<uint>(block_size);
    return table[block * table_stride] * strides[0] + (j - static_cast<int>(block) * block_size) * strides[1] + head;
  }
};

// One sequence's keys, `count` of them: bounds_k are kv_lens where keys lie in blocks.
struct Keys {
  KeyPlace place;
  int count;
};
DEVICE Keys keys_of_sequence(int sequence, int kv_head, const Tensor& table, const Tensor& bounds_k,
                             const AttentionSizes& s) {
  const int* const bounds = bounds_k.as<int>();
  Keys keys = {{nullptr, s.table[1], static_cast<int>(s.block_size), 0, kv_head}, 0};
  if (sequence < 0) return keys;
  if (table.here()) {
    keys.place.table = table.as<int>() + sequence * s.table[0];
    keys.count = bounds[sequence];
  } else {
    keys.place.first_key = bounds[sequence];
    keys.count = bounds[sequence + 1] - bounds[sequence];
  }
  return keys;
}

// What becomes of a row: `factor` of its sums, and its lse. `peak` is the largest score, `sum` that of the weights
// beside it; a row that sees keys has a sum above 0. An infinite peak makes the row NaN.
struct Finish {
  float factor, lse;
};
DEVICE Finish finish_row(float peak, float sum, const Tensor& sinks, int head, const AttentionSizes& s) {
  if (sum == 0.0f) return {0.0f, -infinity()};
  const float own = peak;
  float factor = 1.0f;
  if (sinks.here()) {
    const float sink = sinks.as<float>()[head * s.sinks];
    peak = fmaxf(peak, sink);
    factor = own == peak ? 1.0f : expf(own - peak);
    sum = sum * factor + (sink == peak ? 1.0f : expf(sink - peak));
  }
  if (!is_finite(peak)) factor = not_a_number();
  return {factor * (1.0f / sum), peak + logf(sum)};
}
