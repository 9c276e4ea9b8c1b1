// attention and attention_paged on the matrix units, for few rows of many keys (Dao et al., "Flash-Decoding for
// long-context inference", 2023): all heads that read a kv head are rows of one tile, so its keys are read once.
//
// A block takes one part of a sequence's keys (attention.cuh), of which each of its warps streams over every fourth
// tile of 16 by itself, some tiles ahead of the arithmetic. The warps' sums meet in shared memory, the parts' in
// attention_merge. A key's warp and place follow from its number alone, so a row's sums don't depend on the rows beside
// it.
#include "backends/cuda/cu/attention_mma.cuh"

namespace {

struct Arguments {
  const Tensor &q, &k, &v, &table, &bounds_q, &bounds_k, &sinks, &mask, &out, &lse;
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

template <typename F, int D, int DV, int STAGES>
struct Decode {
  static constexpr int key_pitch = D + kRowPad, value_pitch = DV + kRowPad;
  static constexpr int stage = kKeys * (key_pitch + value_pitch);  // elements
  static constexpr int sum_pitch = DV + 4;

  // Of a tile's keys, lane i those of key i.
  DEVICE_MEMBER static KeyRows rows_at(int begin, const Tile& tile, const Arguments& a) {
    const int lane = threadIdx.x % 32;
    return rows_of_key(tile.keys.place, lane < kKeys ? begin + lane : -1, tile.span, a.s);
  }
  template <int width>
  DEVICE_MEMBER static void copy(ushort* to, const Tensor& from, uint row, int there) {
    constexpr int vectors = width / 8;
    static_assert(kKeys * vectors % 32 == 0);
    UNROLL for (int n = 0; n < kKeys * vectors / 32; ++n) {
      int j, d;
      vector_of<vectors, 32>(threadIdx.x % 32, n, j, d);
      const uint begin = __shfl_sync(0xffffffffu, row, j);
      const bool valid = begin != kNowhere && d < there;
      copy_async(to + j * (width + kRowPad) + d, from.as<ushort>() + (valid ? begin * 8l + d : 0), valid);
    }
  }
  DEVICE_MEMBER static void copy_tile(ushort* to, const KeyRows& rows, const Arguments& a) {
    copy<D>(to, a.k, rows.key, static_cast<int>(a.s.head_dim));
    copy<DV>(to + kKeys * key_pitch, a.v, rows.value, static_cast<int>(a.s.value_dim));
  }

  // The queries' fragments: all columns of entries lane / 4 and + 8.
  DEVICE_MEMBER static void load_queries(uint (&queries)[D / 16][4], const Tile& tile, const Arguments& a) {
    const int lane = threadIdx.x % 32;
    UNROLL for (int half = 0; half < 2; ++half) {
      const int e = half * 8 + lane / 4;
      const bool there = e < tile.entries;
      const ushort* const row = a.q.as<ushort>() + (there ? tile.row(e) * a.s.q[0] + tile.head(e) * a.s.q[1] : 0);
      UNROLL for (int step = 0; step < D / 16; ++step) {
        UNROLL for (int high = 0; high < 2; ++high) {
          const int d = step * 16 + high * 8 + lane % 4 * 2;
          queries[step][2 * high + half] = there && d < a.s.head_dim ? *reinterpret_cast<const uint*>(row + d) : 0u;
        }
      }
    }
  }

  DEVICE_MEMBER static void stream(float (&sums)[1][DV / 8][4], Softmax<1>& state, const uint (&queries)[D / 16][4],
                                   ushort* room, const Tile& tile, const Rows& rows, bool carefully,
                                   const Arguments& a) {
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
    KeyRows ahead = rows_at(begin + (STAGES - 1) * kStep, tile, a);  // known before its tile is due
    for (; begin < tile.span.last; begin += kStep) {
      copy_async_wait<STAGES - 2>();
      __syncwarp();  // this tile is here, and that of before has been read
      copy_tile(room + next_slot * stage, ahead, a);
      copy_async_commit();
      ahead = rows_at(begin + STAGES * kStep, tile, a);
      const ushort* const keys = room + slot * stage;
      const ushort* const values = keys + kKeys * key_pitch;
      next_slot = slot;
      slot = slot + 1 == STAGES ? 0 : slot + 1;
      float scores[1][kKeys / 8][4] = {};
      multiply_turned<F, D, 1, kKeys>(scores, keys, lane, [&](uint(&to)[4], int, int step) {
        UNROLL for (int i = 0; i < 4; ++i) to[i] = queries[step][i];
      });
      cap_scores(scores, a.s);
      const bool whole = all_see(low, high, begin, begin + kKeys, tile.keys.count, a.s);
      if (!whole) hide(scores, begin, lane, rows, a.mask, a.s);
      soften(scores, state, sums, of_two);
      add_weighted<F, DV, 1, kKeys>(sums, scores, values, lane, carefully && !whole);
      if (carefully && !whole) add_not_finite<F, DV, 1>(sums, values, begin, kKeys, lane, rows, a.mask, a.s);
    }
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
        float* const to = memory + e * sum_pitch + n * 8 + lane % 4 * 2;
        to[0] = sums[0][n][2 * half];
        to[1] = sums[0][n][2 * half + 1];
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

  DEVICE_MEMBER static void run(ushort* memory, Span* spans, const Tile& tile, const Arguments& a) {
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
DEVICE void run_tiles(ushort* memory, Span* spans, const Arguments& a) {
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

#define DECODE(name, F, D, DV, STAGES, blocks)                                                                    \
  KERNEL_BOUNDED(attention_decode_##name, 32 * kWarps, blocks)                                                    \
  (Tensor q, Tensor k, Tensor v, Tensor table, Tensor bounds_q, Tensor bounds_k, Tensor sinks, Tensor mask,       \
   Tensor out, Tensor lse, float* partial, AttentionSizes s) {                                                    \
    DYNAMIC_SHARED(ushort, memory);                                                                               \
    SHARED Span spans[kEntries];                                                                                  \
    begin_overlapped();                                                                                           \
    run_tiles<Decode<F, D, DV, STAGES>>(memory, spans,                                                            \
                                        {q, k, v, table, bounds_q, bounds_k, sinks, mask, out, lse, partial, s}); \
  }

DECODE(bf16_64, Bf16, 64, 64, 4, 3)
DECODE(bf16_96, Bf16, 96, 96, 3, 2)
DECODE(bf16_128, Bf16, 128, 128, 3, 2)
DECODE(bf16_192, Bf16, 192, 128, 2, 2)
DECODE(bf16_256, Bf16, 256, 256, 2, 1)
DECODE(f16_64, F16x2, 64, 64, 4, 3)
DECODE(f16_96, F16x2, 96, 96, 3, 2)
DECODE(f16_128, F16x2, 128, 128, 3, 2)
DECODE(f16_192, F16x2, 192, 128, 2, 2)
DECODE(f16_256, F16x2, 256, 256, 2, 1)
