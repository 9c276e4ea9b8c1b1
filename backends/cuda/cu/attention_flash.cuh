// attention and attention_paged on the matrix units, for many rows (Dao, "FlashAttention-2", 2023).
//
// A block takes 16 MT rows of entries (attention.cuh) for each of its warps and streams over KEYS keys at a time: keys
// of the next tile come while this one's weights are made, values while its scores are. Tiles of keys begin at
// multiples of KEYS from the sequence's first key, so a row's sums don't depend on the rows beside it.
#pragma once

#include "backends/cuda/cu/attention_given.cuh"

namespace {

struct Arguments {
  const Tensor &q, &k, &v, &table, &bounds_q, &bounds_k, &sinks, &mask, &out, &lse, &k_scale, &v_scale;
  const AttentionSizes& s;
};

// A block's entries.
struct Tile {
  Place place;
  Keys keys;
  int kv_head, group, first_entry, entries;
  int shift;
  Span span;
  DEVICE_MEMBER long row(int e) const { return place.first_row + (first_entry + e) / group; }
  DEVICE_MEMBER int head(int e) const { return kv_head * group + (first_entry + e) % group; }
  DEVICE_MEMBER int position(int e) const { return (first_entry + e) / group + shift; }
};
// Every lane of a warp calls it. There may be none: it has no entries then.
DEVICE Tile find_tile(int entries, const Arguments& a) {
  Tile tile;
  tile.kv_head = blockIdx.y;
  tile.group = static_cast<int>(a.s.heads / a.s.kv_heads);
  // The last tiles of a sequence see most, and begin first.
  tile.place = place_of(gridDim.x - 1 - blockIdx.x, tile.group, entries, a.bounds_q.as<int>(),
                        static_cast<int>(a.s.q_rows), static_cast<int>(a.s.sequences));
  const int left = tile.place.rows * tile.group - tile.place.tile * entries;
  tile.entries = left < entries ? left : entries;
  tile.keys = keys_of_sequence(tile.place.sequence, tile.kv_head, a.table, a.bounds_k, a.s);
  tile.first_entry = tile.place.tile * entries;
  tile.shift = tile.keys.count - tile.place.rows;
  tile.span = keys_of(tile.position(0), tile.position(tile.entries - 1), tile.keys.count, a.s);
  return tile;
}

template <typename C, int MT, int D>
DEVICE void write_rows(float (&sums)[MT][D / 8][4], Softmax<MT>& state, const Tile& tile, const Rows& rows,
                       int warp_row, const Arguments& a) {
  const int lane = threadIdx.x % 32;
  const AttentionSizes& s = a.s;
  UNROLL for (int m = 0; m < MT; ++m) {
    UNROLL for (int half = 0; half < 2; ++half) {
      float sum = state.sum[m][half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const int own = m * 16 + half * 8 + lane / 4;
      const int e = warp_row + own;
      if (e >= tile.entries) continue;
      const long row = tile.row(e);
      const int head = tile.head(e);
      // All of a row's scores may be -infinity.
      if (sum == 0.0f && sees_any(rows.spans[own], row, a.mask, s)) sum = 1.0f;
      const Finish finish = finish_row(state.peak[m][half] * units_of(s).natural, sum, a.sinks, head, s);
      if (a.lse.here() && lane % 4 == 0) a.lse.as<float>()[row * s.lse[0] + head * s.lse[1]] = finish.lse;
      const long begin = row * s.out[0] + head * s.out[1];
      UNROLL for (int n = 0; n < D / 8; ++n) {
        float x, y;
        const int d = C::pair_of(sums[m], n, half, lane, x, y);
        if (d >= s.value_dim) continue;
        put_pair(a.out, begin + d * s.out[2], s.out[2], x * finish.factor, y * finish.factor);
      }
    }
  }
}

// C is Given or Coded.
template <typename C, int D, int DV, int KEYS, int WARPS, int MT>
struct Flash {
  using Element = typename C::Element;
  using KeyRow = typename C::Place;  // where a key and its value lie
  static constexpr int entries = 16 * MT * WARPS, threads = 32 * WARPS;

  ushort* queries;
  Element *keys, *values;
  KeyRow* key_rows;  // [2, KEYS]
  Span* spans;        // [entries]
  const Tile& tile;   // in shared memory, where it costs no registers

  // Keys or values of a tile, of which rows_of says where the j-th begins.
  template <int width, typename RowsOf>
  DEVICE_MEMBER static void load(Element* to, const Tensor& from, int there, RowsOf&& rows_of) {
    constexpr int vectors = width / C::vector;
    static_assert(KEYS * vectors % threads == 0);
    UNROLL for (int n = 0; n < KEYS * vectors / threads; ++n) {
      int j, d;
      vector_of<vectors, threads, C::vector>(threadIdx.x, n, j, d);
      const uint row = rows_of(j);
      const bool valid = row != kNowhere && d < there;
      const long at = valid ? row * static_cast<long>(C::vector) + d : 0;
      copy_async(to + j * (width + C::pad) + d, from.as<Element>() + at, valid);
    }
    copy_async_commit();
  }
  DEVICE_MEMBER void load_keys(int slot, const Arguments& a) const {
    load<D>(keys, a.k, static_cast<int>(a.s.head_dim), [&](int j) { return key_rows[slot * KEYS + j].key; });
  }
  DEVICE_MEMBER void load_values(int slot, const Arguments& a) const {
    load<DV>(values, a.v, static_cast<int>(a.s.value_dim), [&](int j) { return key_rows[slot * KEYS + j].value; });
  }

  // Streams over the keys; `carefully`: what a row doesn't see may be infinite or NaN.
  DEVICE_MEMBER void stream(float (&sums)[MT][DV / 8][4], Softmax<MT>& state, const Rows& rows, int warp_row,
                            bool carefully, const Arguments& a) const {
    const int lane = threadIdx.x % 32;
    C cache;
    cache.begin();
    const float of_two = units_of(a.s).of_two;
    const int last_entry = warp_row + 16 * MT < tile.entries ? warp_row + 16 * MT : tile.entries;
    const int low = tile.position(warp_row), high = tile.position(last_entry - 1);
    const ushort* const own = of_rows(queries + warp_row * (D + kRowPad), D + kRowPad, lane);
    UNROLL for (int m = 0; m < MT; ++m) {
      UNROLL for (int n = 0; n < DV / 8; ++n) { UNROLL for (int i = 0; i < 4; ++i) sums[m][n][i] = 0.0f; }
    }
    state.clear();
    const int first = tile.span.first / KEYS * KEYS, own_key = threadIdx.x;
    const auto place_of = [&](int j) { return C::place_of_key(tile.keys.place, j, tile.span, a); };
    if (own_key < KEYS) key_rows[own_key] = place_of(first + own_key);
    KeyRow ahead = place_of(first + KEYS + own_key);  // a tile before it is due
    __syncthreads();
    load_keys(0, a);
    int slot = 0;
    for (int begin = first; begin < tile.span.last; begin += KEYS, slot ^= 1) {
      copy_async_wait<0>();
      __syncthreads();  // keys are here, and the values of before have been read
      if (own_key < KEYS) key_rows[(slot ^ 1) * KEYS + own_key] = ahead;
      load_values(slot, a);
      ahead = place_of(begin + 2 * KEYS + own_key);
      const auto scale_of = [&](int j, bool of_value) { return C::scale_of(key_rows[slot * KEYS + j], of_value); };
      float scores[MT][KEYS / 8][4] = {};
      const auto queries_of = [&](uint(&to)[4], int m, int step) {
        ldmatrix_x4(to, own + m * 16 * (D + kRowPad) + step * 16);
      };
      C::template score<D, MT, KEYS>(scores, keys, lane, queries_of, scale_of);
      copy_async_wait<0>();
      __syncthreads();  // values are here, and the keys have been read
      if (begin + KEYS < tile.span.last) load_keys(slot ^ 1, a);
      cap_scores(scores, a.s);
      const bool whole = all_see(low, high, begin, begin + KEYS, tile.keys.count, a.s);
      if (!whole) hide(scores, begin, lane, rows, a.mask, a.s);
      soften(scores, state, sums, of_two);
      const auto add = [&](bool careful) {
        cache.template add<DV, MT, KEYS>(sums, scores, values, begin, lane, careful, scale_of, rows, a.mask, a.s);
      };
      if (C::scales != 0) {  // only scales aren't finite: no two loops
        add(carefully && !whole);
      } else if (carefully && !whole) {
        add(true);
      } else {
        add(false);
      }
    }
    cache.end(sums);
    copy_async_wait<0>();
    __syncthreads();
  }

  DEVICE_MEMBER Flash(ushort* memory, const Tile& its_tile) : tile(its_tile) {
    queries = memory;
    keys = reinterpret_cast<Element*>(queries + entries * (D + kRowPad));
    values = keys + KEYS * (D + C::pad);
    key_rows = reinterpret_cast<KeyRow*>(values + KEYS * (DV + C::pad));
    spans = reinterpret_cast<Span*>(key_rows + 2 * KEYS);
  }

  DEVICE_MEMBER void run(int* not_finite, const Arguments& a) const {
    copy_rows<entries, D, threads>(queries, a.q, tile.entries, static_cast<int>(a.s.head_dim),
                                   [&](int e) { return tile.row(e) * a.s.q[0] + tile.head(e) * a.s.q[1]; });
    copy_async_commit();
    C::template arrange<entries, D, threads>(queries);
    for (int e = threadIdx.x; e < entries; e += threads) {
      const int position = tile.position(e);
      spans[e] = e < tile.entries ? keys_of(position, position, tile.keys.count, a.s) : Span{0, 0};
    }
    if (threadIdx.x == 0) *not_finite = 0;
    __syncthreads();
    const int warp_row = threadIdx.x / 32 * 16 * MT;
    const Rows rows = {spans + warp_row, tile.place.first_row, tile.first_entry + warp_row, tile.group};
    float sums[MT][DV / 8][4];
    Softmax<MT> state;
    for (int pass = 0; pass < 2; ++pass) {
      stream(sums, state, rows, warp_row, pass != 0, a);
      if (!all_finite(sums)) *not_finite = 1;
      __syncthreads();
      if (*not_finite == 0) break;
    }
    write_rows<C, MT, DV>(sums, state, tile, rows, warp_row, a);
  }
};

}  // namespace

#define FLASH(name, C, D, DV, KEYS, WARPS, MT, blocks)                                                            \
  KERNEL_BOUNDED(attention_flash_##name, 32 * WARPS, blocks)                                                      \
  (Tensor q, Tensor k, Tensor v, Tensor table, Tensor bounds_q, Tensor bounds_k, Tensor sinks, Tensor mask,       \
   Tensor out, Tensor lse, Tensor k_scale, Tensor v_scale, float* partial, AttentionSizes s) {                    \
    DYNAMIC_SHARED(ushort, memory);                                                                               \
    SHARED int not_finite;                                                                                        \
    SHARED Tile tile;                                                                                             \
    const Arguments arguments = {q, k, v, table, bounds_q, bounds_k, sinks, mask, out, lse, k_scale, v_scale, s}; \
    if (threadIdx.x < 32) {                                                                                       \
      const Tile found = find_tile(16 * MT * WARPS, arguments);                                                   \
      if (threadIdx.x == 0) tile = found;                                                                         \
    }                                                                                                             \
    __syncthreads();                                                                                              \
    if (tile.entries <= 0) return;                                                                                \
    const Flash<C, D, DV, KEYS, WARPS, MT> flash(memory, tile);                                                   \
    flash.run(&not_finite, arguments);                                                                            \
  }
