// attention and attention_paged on the matrix units, for few rows of many keys (Dao et al., "Flash-Decoding for
// long-context inference", 2023): all heads that read a kv head are rows of one tile, so its keys are read once.
//
// A block takes one part of a sequence's keys (attention.cuh), of which each of its warps streams over every fourth
// tile of 16 by itself, some tiles ahead of the arithmetic. The warps' sums meet in shared memory, the parts' in
// attention_merge. A key's warp and place follow from its number alone, so a row's sums don't depend on the rows beside
// it.
#pragma once

#include "backends/cuda/cu/attention_given.cuh"

namespace {

struct Arguments {
  const Tensor &q, &k, &v, &table, &bounds_q, &bounds_k, &sinks, &mask, &out, &lse, &k_scale, &v_scale;
  float* partial;
  const AttentionSizes& s;
};

CONSTANT int kWarps = 4;
CONSTANT int kKeys = 16;     // of a warp's tile
CONSTANT int kEntries = 16;  // of a block
CONSTANT int kStep = kWarps * kKeys;

// A block's entries and keys.
struct Tile {
  Keys keys;
  int kv_head, group, first_row, first_entry, entries, part;
  int shift;
  Span span;
  DEVICE_MEMBER long row(int e) const { return first_row + (first_entry + e) / group; }
  DEVICE_MEMBER int head(int e) const { return kv_head * group + (first_entry + e) % group; }
  DEVICE_MEMBER int position(int e) const { return (first_entry + e) / group + shift; }
};

// C is Given or Coded.
template <typename C, int D, int DV, int STAGES>
struct Decode {
  using F = typename C::Format;
  using Element = typename C::Element;
  using KeyRow = typename C::Place;  // where a key and its value lie
  static constexpr int key_pitch = D + C::pad, value_pitch = DV + C::pad;
  static constexpr int scales_at = kKeys * (key_pitch + value_pitch);
  static constexpr int stage = scales_at + kKeys * C::scales * sizeof(float) / sizeof(Element);  // elements
  static constexpr int sum_pitch = DV + 4;

  // Of a tile's keys, lane i those of key i.
  DEVICE_MEMBER static KeyRow rows_at(int begin, const Tile& tile, const Arguments& a) {
    const int lane = threadIdx.x % 32;
    return C::place_of_key(tile.keys.place, lane < kKeys ? begin + lane : -1, tile.span, a);
  }
  template <int width>
  DEVICE_MEMBER static void copy(Element* to, const Tensor& from, uint row, int there) {
    constexpr int vectors = width / C::vector;
    static_assert(kKeys * vectors % 32 == 0);
    UNROLL for (int n = 0; n < kKeys * vectors / 32; ++n) {
      int j, d;
      vector_of<vectors, 32, C::vector>(threadIdx.x % 32, n, j, d);
      const uint begin = __shfl_sync(0xffffffffu, row, j);
      const bool valid = begin != kNowhere && d < there;
      const long at = valid ? begin * static_cast<long>(C::vector) + d : 0;
      copy_async(to + j * (width + C::pad) + d, from.as<Element>() + at, valid);
    }
  }
  DEVICE_MEMBER static void copy_tile(Element* to, const KeyRow& rows, const Arguments& a) {
    const int lane = threadIdx.x % 32;
    copy<D>(to, a.k, rows.key, static_cast<int>(a.s.head_dim));
    copy<DV>(to + kKeys * key_pitch, a.v, rows.value, static_cast<int>(a.s.value_dim));
    if (lane < kKeys) C::keep_scales(to + scales_at, kKeys, lane, rows);
  }

  // The queries' fragments: all columns of entries lane / 4 and + 8.
  DEVICE_MEMBER static void load_queries(uint (&queries)[D / 16][4], const Tile& tile, const Arguments& a) {
    const int lane = threadIdx.x % 32;
    UNROLL for (int half = 0; half < 2; ++half) {
      const int e = half * 8 + lane / 4;
      const bool there = e < tile.entries;
      const ushort* const row = a.q.as<ushort>() + (there ? tile.row(e) * a.s.q[0] + tile.head(e) * a.s.q[1] : 0);
      const int width = there ? static_cast<int>(a.s.head_dim) : 0;
      UNROLL for (int step = 0; step < D / 16; ++step) {
        C::query(row, step, lane, width, queries[step][half], queries[step][2 + half]);
      }
    }
  }

  DEVICE_MEMBER static void stream(float (&sums)[1][DV / 8][4], Softmax<1>& state, const uint (&queries)[D / 16][4],
                                   Element* room, const Tile& tile, const Rows& rows, bool carefully,
                                   const Arguments& a) {
    C cache;
    cache.begin();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float of_two = units_of(a.s).of_two;
    const int low = tile.position(0), high = tile.position(tile.entries - 1);
    UNROLL for (int n = 0; n < DV / 8; ++n) { UNROLL for (int i = 0; i < 4; ++i) sums[0][n][i] = 0.0f; }
    state.clear();
    int begin = tile.span.first / kStep * kStep + warp * kKeys;
    UNROLL for (int i = 0; i + 1 < STAGES; ++i) {
      copy_tile(room + i * stage, rows_at(begin + i * kStep, tile, a), a);
      copy_async_commit();
    }
    int slot = 0, next_slot = STAGES - 1;
    KeyRow ahead = rows_at(begin + (STAGES - 1) * kStep, tile, a);  // known before its tile is due
    for (; begin < tile.span.last; begin += kStep) {
      copy_async_wait<STAGES - 2>();
      __syncwarp();  // this tile is here, and that of before has been read
      copy_tile(room + next_slot * stage, ahead, a);
      copy_async_commit();
      ahead = rows_at(begin + STAGES * kStep, tile, a);
      const Element* const keys = room + slot * stage;
      const Element* const values = keys + kKeys * key_pitch;
      const auto scale_of = [&](int j, bool of_value) {
        return reinterpret_cast<const float*>(keys + scales_at)[of_value ? kKeys + j : j];
      };
      next_slot = slot;
      slot = slot + 1 == STAGES ? 0 : slot + 1;
      float scores[1][kKeys / 8][4] = {};
      const auto queries_of = [&](uint(&to)[4], int, int step) {
        UNROLL for (int i = 0; i < 4; ++i) to[i] = queries[step][i];
      };
      C::template score<D, 1, kKeys>(scores, keys, lane, queries_of, scale_of);
      cap_scores(scores, a.s);
      const bool whole = all_see(low, high, begin, begin + kKeys, tile.keys.count, a.s);
      if (!whole) hide(scores, begin, lane, rows, a.mask, a.s);
      soften(scores, state, sums, of_two);
      cache.template add<DV, 1, kKeys>(sums, scores, values, begin, lane, carefully && !whole, scale_of, rows, a.mask,
                                       a.s);
    }
    cache.end(sums);
    copy_async_wait<0>();
    __syncwarp();
  }

  // The warps' sums, [warp, entry, sum_pitch], then their peaks and their weights' sums, [warp, entry].
  DEVICE_MEMBER static void share(float* memory, const float (&sums)[1][DV / 8][4], Softmax<1>& state) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* const peaks = memory + kWarps * kEntries * sum_pitch;
    float* const totals = peaks + kWarps * kEntries;
    UNROLL for (int half = 0; half < 2; ++half) {
      float sum = state.sum[0][half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const int e = warp * kEntries + half * 8 + lane / 4;
      if (lane % 4 == 0) {
        peaks[e] = state.peak[0][half];
        totals[e] = sum;
      }
      UNROLL for (int n = 0; n < DV / 8; ++n) {
        float x, y;
        float* const to = memory + e * sum_pitch + C::pair_of(sums[0], n, half, lane, x, y);
        to[0] = x;
        to[1] = y;
      }
    }
  }
  // A thread an entry: each warp's peak becomes what its sums are multiplied by, and a row or its part ends.
  DEVICE_MEMBER static void end_entry(float* memory, int e, const Tile& tile, const Span& shown, const Arguments& a) {
    float* const peaks = memory + kWarps * kEntries * sum_pitch;
    float* const totals = peaks + kWarps * kEntries;
    const Units units = units_of(a.s);
    float peak = -infinity();
    UNROLL for (int warp = 0; warp < kWarps; ++warp) peak = fmaxf(peak, peaks[warp * kEntries + e]);
    float sum = 0.0f;
    float factors[kWarps];
    UNROLL for (int warp = 0; warp < kWarps; ++warp) {
      const float own = peaks[warp * kEntries + e];
      factors[warp] = own == peak ? 1.0f : fast_exp2((own - peak) * units.of_two);
      sum = fmaf(totals[warp * kEntries + e], factors[warp], sum);
    }
    const long row = tile.row(e);
    const int head = tile.head(e);
    // All of a row's scores may be -infinity.
    if (sum == 0.0f && sees_any(shown, row, a.mask, a.s)) sum = 1.0f;
    float whole = 1.0f;
    if (a.partial != nullptr) {
      float* const to = a.partial + 2 * ((row * a.s.heads + head) * a.s.parts + tile.part);
      to[0] = peak * units.natural;
      to[1] = sum;
    } else {
      const Finish finish = finish_row(peak * units.natural, sum, a.sinks, head, a.s);
      if (a.lse.here()) a.lse.as<float>()[row * a.s.lse[0] + head * a.s.lse[1]] = finish.lse;
      whole = finish.factor;
    }
    UNROLL for (int warp = 0; warp < kWarps; ++warp) peaks[warp * kEntries + e] = factors[warp] * whole;
  }
  DEVICE_MEMBER static void write(const float* memory, const Tile& tile, const Arguments& a) {
    const float* const factors = memory + kWarps * kEntries * sum_pitch;
    const int width = static_cast<int>(a.s.value_dim);
    float* const parts = a.partial + 2 * a.s.q_rows * a.s.heads * a.s.parts;
    for (int at = threadIdx.x; at < tile.entries * width; at += 32 * kWarps) {
      const int e = at / width;
      const int d = at % width;
      float sum = 0.0f;
      UNROLL for (int warp = 0; warp < kWarps; ++warp) {
        const int own = warp * kEntries + e;
        sum = fmaf(memory[own * sum_pitch + d], factors[own], sum);
      }
      const long row = tile.row(e);
      const int head = tile.head(e);
      if (a.partial != nullptr) {
        parts[((row * a.s.heads + head) * a.s.parts + tile.part) * width + d] = sum;
      } else {
        put(a.out, row * a.s.out[0] + head * a.s.out[1] + d * a.s.out[2], sum);
      }
    }
  }

  DEVICE_MEMBER static void run(Element* memory, Span* spans, const Tile& tile, const Arguments& a) {
    const int warp = threadIdx.x / 32;
    if (threadIdx.x < kEntries) {
      const int e = threadIdx.x;
      const int position = tile.position(e);
      Span shown = {0, 0};
      if (e < tile.entries) shown = keys_of(position, position, tile.keys.count, a.s);
      shown.first = shown.first > tile.span.first ? shown.first : tile.span.first;
      shown.last = shown.last < tile.span.last ? shown.last : tile.span.last;
      spans[e] = shown;
    }
    __syncthreads();
    const Rows rows = {spans, tile.first_row, tile.first_entry, tile.group};
    uint queries[D / 16][4];
    load_queries(queries, tile, a);
    float sums[1][DV / 8][4];
    Softmax<1> state;
    for (int pass = 0; pass < 2; ++pass) {
      stream(sums, state, queries, memory + warp * STAGES * stage, tile, rows, pass != 0, a);
      if (warp_max(all_finite(sums) ? 0.0f : 1.0f) == 0.0f) break;
    }
    __syncthreads();
    float* const floats = reinterpret_cast<float*>(memory);
    share(floats, sums, state);
    __syncthreads();
    if (threadIdx.x < tile.entries) end_entry(floats, threadIdx.x, tile, spans[threadIdx.x], a);
    __syncthreads();
    write(floats, tile, a);
    __syncthreads();
  }
};

// Block x takes of sequence x / s.tile, the last of which is the rows outside of all, every s.tile-th tile of entries.
template <typename Kernel>
DEVICE void run_tiles(typename Kernel::Element* memory, Span* spans, const Arguments& a) {
  const AttentionSizes& s = a.s;
  const int* const bounds = a.bounds_q.as<int>();
  const int sequence = blockIdx.x / s.tile;
  const bool outside = sequence >= s.sequences;
  Tile tile;
  tile.part = gridDim.z - 1 - blockIdx.z;  // large parts begin first
  tile.kv_head = blockIdx.y;
  tile.group = static_cast<int>(s.heads / s.kv_heads);
  tile.first_row = !outside ? bounds[sequence] : s.sequences > 0 ? bounds[s.sequences] : 0;
  const int rows = (outside ? static_cast<int>(s.q_rows) : bounds[sequence + 1]) - tile.first_row;
  tile.keys = keys_of_sequence(outside ? -1 : sequence, tile.kv_head, a.table, a.bounds_k, s);
  tile.shift = tile.keys.count - rows;
  const Span part = keys_of_part(tile.part, s);
  for (tile.first_entry = blockIdx.x % s.tile * kEntries; tile.first_entry < rows * tile.group;
       tile.first_entry += s.tile * kEntries) {
    const int left = rows * tile.group - tile.first_entry;
    tile.entries = left < kEntries ? left : kEntries;
    tile.span = keys_of(tile.position(0), tile.position(tile.entries - 1), tile.keys.count, s);
    tile.span.first = tile.span.first > part.first ? tile.span.first : part.first;
    tile.span.last = tile.span.last < part.last ? tile.span.last : part.last;
    if (a.partial != nullptr && tile.span.first >= tile.span.last) {
      for (int e = threadIdx.x; e < tile.entries; e += 32 * kWarps) {
        a.partial[2 * ((tile.row(e) * s.heads + tile.head(e)) * s.parts + tile.part) + 1] = 0.0f;
      }
      continue;
    }
    Kernel::run(memory, spans, tile, a);
  }
}

}  // namespace

#define DECODE(name, C, D, DV, STAGES, blocks)                                                                     \
  KERNEL_BOUNDED(attention_decode_##name, 32 * kWarps, blocks)                                                     \
  (Tensor q, Tensor k, Tensor v, Tensor table, Tensor bounds_q, Tensor bounds_k, Tensor sinks, Tensor mask,        \
   Tensor out, Tensor lse, Tensor k_scale, Tensor v_scale, float* partial, AttentionSizes s) {                     \
    using Kernel = Decode<C, D, DV, STAGES>;                                                                       \
    DYNAMIC_SHARED(Kernel::Element, memory);                                                                       \
    SHARED Span spans[kEntries];                                                                                   \
    begin_overlapped();                                                                                            \
    run_tiles<Kernel>(memory, spans, {q, k, v, table, bounds_q, bounds_k, sinks, mask, out, lse, k_scale, v_scale, \
                                      partial, s});                                                                \
  }
