// attention and attention_paged in plain fp32: softmax over streamed tiles of keys (Dao et al., "FlashAttention",
// 2022).
//
// A block takes s.tile entries (attention.cuh) and streams over s.tile_keys keys at a time. Scores and values are
// products of micro-tiles, which its threads share. Tiles of keys begin at multiples of tile_keys from the sequence's
// first key, so a row's sums don't depend on the rows beside it.
#include "backends/cuda/cu/attention_tile.cuh"

namespace {

// A tile of entries and the keys that it is at.
struct Tile {
  Place place;
  Keys keys;
  int kv_head, group;
  int first_entry, entries;
  int shift;         // of a row to its position
  int begin, count;  // of the keys
  bool whole;        // every entry sees every key
  DEVICE_MEMBER long row(int e) const { return place.first_row + (first_entry + e) / group; }
  DEVICE_MEMBER int head(int e) const { return kv_head * group + (first_entry + e) % group; }
  DEVICE_MEMBER int position(int e) const { return (first_entry + e) / group + shift; }
};

// Shared memory of a block; local_bytes of attention.cpp.
struct Room {
  float *weights, *queries, *sums, *peak, *total, *shrink, *turned, *values;
  DEVICE_MEMBER Room(float* at, const AttentionSizes& s) {
    const auto take = [&](int count) {
      float* const begin = at;
      at += count;
      return begin;
    };
    weights = take(s.tile * s.tile_keys);
    queries = take(s.tile * s.head_pitch);
    sums = take(s.tile * s.value_pitch);
    peak = take(s.tile);
    total = take(s.tile);
    shrink = take(s.tile);
    turned = take(s.tile_keys * s.head_pitch);
    values = take(s.tile_keys * s.value_pitch);
  }
};

// The tile's keys, or values; `scale` is absent unless they are codes.
DEVICE void load_keys(const Tensor& from, const Tensor& scale, const long (&strides)[4], const long (&scale_strides)[4],
                      long width, int pitch, float* lying, float* turned, const Tile& tile, const AttentionSizes& s) {
  const KeyPlace& place = tile.keys.place;
  load_values(
      s.tile_keys, tile.count, static_cast<int>(width), pitch, strides[3], lying, turned,
      [&](int j) { return place.row(strides, tile.begin + j); },
      [&](int j, long element) {
        if (!scale.here()) return get(from, element);
        return get_scaled(from, element, scale.as<float>()[place.row(scale_strides, tile.begin + j)]);
      });
}

// weights [tile, tile_keys] = the products of queries and turned keys.
DEVICE void score(const Room& room, const AttentionSizes& s) {
  const int vectors = s.tile_keys / W;
  for (int at = threadIdx.x; at < s.tile / RQ * vectors; at += blockDim.x) {
    const int e = at / vectors * RQ;
    const int j = at % vectors * W;
    Quad dots[RQ];
    multiply_turned(room.queries + e * s.head_pitch, s.head_pitch, room.turned + j, s.tile_keys,
                    static_cast<int>(s.head_dim), dots);
    UNROLL for (int r = 0; r < RQ; ++r) store_quad(room.weights + (e + r) * s.tile_keys + j, dots[r]);
  }
}

// Scores become weights beside the largest score so far; the sums of before shrink by as much as it grew. A score that
// is infinite and the largest has a weight of 1: what it makes of the row is decided at its end. A warp takes an entry,
// a lane a key.
DEVICE void soften(const Room& room, const Tile& tile, const Tensor& mask, const AttentionSizes& s) {
  const int lane = threadIdx.x % 32;
  for (int e = threadIdx.x / 32; e < s.tile; e += blockDim.x / 32) {
    float* const weight = room.weights + e * s.tile_keys + lane;
    const int position = tile.position(e);
    const Span shown = keys_of(position, position, tile.keys.count, s);
    const bool seen =
        lane < s.tile_keys && e < tile.entries && (tile.whole || sees(shown, tile.begin + lane, tile.row(e), mask, s));
    float own = seen ? *weight * s.scale : -infinity();
    if (seen && s.softcap > 0.0f) own = s.softcap * tanhf(own / s.softcap);
    const float before = room.peak[e];
    const float now = fmaxf(before, warp_max(own));
    float p = seen ? (own == now ? 1.0f : expf(own - now)) : 0.0f;
    const float sum = warp_sum(p);
    if (lane < s.tile_keys) *weight = seen ? p : kHidden;
    __syncwarp();  // every lane has read the peak of before
    if (lane == 0) {
      const float kept = before == now ? 1.0f : expf(before - now);
      room.peak[e] = now;
      room.total[e] = room.total[e] * kept + sum;
      room.shrink[e] = kept;
    }
  }
}
DEVICE void shrink_sums(const Room& room, const AttentionSizes& s) {
  for (int at = threadIdx.x; at < s.tile * s.value_pitch; at += blockDim.x) {
    const float kept = room.shrink[at / s.value_pitch];
    if (kept != 1.0f) room.sums[at] *= kept;
  }
}

// partial: [row, head, part, 2] of the largest score and the sum, then [row, head, part, value_dim].
DEVICE void write_part(const Room& room, const Tile& tile, int part, float* partial, const AttentionSizes& s) {
  float* const sums = partial + 2 * s.q_rows * s.heads * s.parts;
  const int width = static_cast<int>(s.value_dim);
  for (int at = threadIdx.x; at < tile.entries * width; at += blockDim.x) {
    const int e = at / width;
    const int d = at % width;
    const long to = (tile.row(e) * s.heads + tile.head(e)) * s.parts + part;
    if (d == 0) {
      partial[2 * to] = room.peak[e];
      partial[2 * to + 1] = room.total[e];
    }
    if (room.total[e] != 0.0f) sums[to * width + d] = room.sums[e * s.value_pitch + d];
  }
}
DEVICE void write_rows(const Room& room, const Tile& tile, const Tensor& sinks, const Tensor& out, const Tensor& lse,
                       const AttentionSizes& s) {
  for (int e = threadIdx.x; e < tile.entries; e += blockDim.x) {
    const int head = tile.head(e);
    const Finish finish = finish_row(room.peak[e], room.total[e], sinks, head, s);
    if (lse.here()) lse.as<float>()[tile.row(e) * s.lse[0] + head * s.lse[1]] = finish.lse;
    room.shrink[e] = finish.factor;
  }
  __syncthreads();
  const int width = static_cast<int>(s.value_dim);
  for (int at = threadIdx.x; at < tile.entries * width; at += blockDim.x) {
    const int e = at / width;
    const int d = at % width;
    put(out, tile.row(e) * s.out[0] + tile.head(e) * s.out[1] + d * s.out[2],
        room.sums[e * s.value_pitch + d] * room.shrink[e]);
  }
}

}  // namespace

KERNEL(attention)
(Tensor q, Tensor k, Tensor v, Tensor table, Tensor bounds_q, Tensor bounds_k, Tensor sinks, Tensor mask, Tensor out,
 Tensor lse, Tensor k_scale, Tensor v_scale, float* partial, AttentionSizes s) {
  DYNAMIC_SHARED(float, memory);
  const Room room(memory, s);
  Tile tile;
  tile.kv_head = blockIdx.y;
  tile.group = static_cast<int>(s.heads / s.kv_heads);
  tile.place = place_of(blockIdx.x, tile.group, s.tile, bounds_q.as<int>(), static_cast<int>(s.q_rows),
                        static_cast<int>(s.sequences));
  const Place& place = tile.place;
  const long left = static_cast<long>(place.rows) * tile.group - static_cast<long>(place.tile) * s.tile;
  if (left <= 0) return;
  tile.keys = keys_of_sequence(place.sequence, tile.kv_head, table, bounds_k, s);
  tile.first_entry = place.tile * s.tile;
  tile.entries = static_cast<int>(left < s.tile ? left : s.tile);
  tile.shift = tile.keys.count - place.rows;
  const int low = tile.position(0), high = tile.position(tile.entries - 1);
  const Span span = keys_of(low, high, tile.keys.count, s);
  const int part = blockIdx.z;
  const Span own = keys_of_part(part, s);
  const int first = span.first > own.first ? span.first : own.first;
  const int last = span.last < own.last ? span.last : own.last;
  load_rows(q, s.tile, tile.entries, static_cast<int>(s.head_dim), s.head_pitch, s.q[2], room.queries, nullptr,
            [&](int e) { return tile.row(e) * s.q[0] + tile.head(e) * s.q[1]; });
  clear(room.sums, s.tile * s.value_pitch);
  for (int e = threadIdx.x; e < s.tile; e += blockDim.x) {
    room.peak[e] = -infinity();
    room.total[e] = 0.0f;
  }
  for (tile.begin = first / s.tile_keys * s.tile_keys; tile.begin < last; tile.begin += s.tile_keys) {
    tile.whole = all_see(low, high, tile.begin, tile.begin + s.tile_keys, tile.keys.count, s);
    const int there = tile.keys.count - tile.begin;
    tile.count = there < s.tile_keys ? there : s.tile_keys;
    __syncthreads();
    load_keys(k, k_scale, s.k, s.k_scale, s.head_dim, s.head_pitch, nullptr, room.turned, tile, s);
    load_keys(v, v_scale, s.v, s.v_scale, s.value_dim, s.value_pitch, room.values, nullptr, tile, s);
    __syncthreads();
    score(room, s);
    __syncthreads();
    soften(room, tile, mask, s);
    __syncthreads();
    shrink_sums(room, s);
    __syncthreads();
    add_weighted(room.sums, room.weights, room.values, s.value_pitch, tile.count, tile.whole, s);
  }
  __syncthreads();
  if (partial != nullptr) {
    write_part(room, tile, part, partial, s);
  } else {
    write_rows(room, tile, sinks, out, lse, s);
  }
}

// Merges the parts of each row and head, in their order; a block each.
KERNEL(attention_merge)(const float* partial, Tensor sinks, Tensor out, Tensor lse, AttentionSizes s) {
  begin_overlapped();
  const long unit = blockIdx.x;
  const long row = unit / s.heads;
  const int head = static_cast<int>(unit % s.heads);
  const float* const tops = partial + 2 * unit * s.parts;
  const float* const sums = partial + 2 * s.q_rows * s.heads * s.parts + unit * s.parts * s.value_dim;
  float peak = -infinity();
  bool empty = true;
  for (long part = 0; part < s.parts; ++part) {
    if (tops[2 * part + 1] == 0.0f) continue;
    peak = fmaxf(peak, tops[2 * part]);
    empty = false;
  }
  float sum = 0.0f;
  if (sinks.here() && !empty) {
    const float sink = sinks.as<float>()[head * s.sinks];
    peak = fmaxf(peak, sink);
    sum = sink == peak ? 1.0f : expf(sink - peak);
  }
  for (long part = 0; part < s.parts; ++part) {
    if (tops[2 * part + 1] == 0.0f) continue;
    sum += tops[2 * part + 1] * (tops[2 * part] == peak ? 1.0f : expf(tops[2 * part] - peak));
  }
  if (lse.here() && threadIdx.x == 0) {
    lse.as<float>()[row * s.lse[0] + head * s.lse[1]] = empty ? -infinity() : peak + logf(sum);
  }
  const float whole = empty ? 0.0f : is_finite(peak) ? 1.0f / sum : not_a_number();
  for (long d = threadIdx.x; d < s.value_dim; d += blockDim.x) {
    float result = 0.0f;
    for (long part = 0; part < s.parts; ++part) {
      if (tops[2 * part + 1] == 0.0f) continue;
      const float factor = tops[2 * part] == peak ? 1.0f : expf(tops[2 * part] - peak);
      result = fmaf(sums[part * s.value_dim + d], factor, result);
    }
    put(out, row * s.out[0] + head * s.out[1] + d * s.out[2], result * whole);
  }
}
