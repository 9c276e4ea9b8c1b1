// attention_backward in plain fp32, and what all its kernels share. Scores and weights are computed again, tile by
// tile, once for dq and once for dk and dv. No sum crosses blocks, so nothing depends on their order.
#include "backends/cuda/cu/attention_tile.cuh"

// delta[row, head]: the sum of dout out. A warp each.
KERNEL(attention_delta)(Tensor dout, Tensor out, float* delta, AttentionSizes s) {
  const long unit = static_cast<long>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (unit >= s.q_rows * s.heads) return;
  const long row = unit / s.heads;
  const long head = unit % s.heads;
  const long upstream = row * s.dout[0] + head * s.dout[1];
  const long own = row * s.out[0] + head * s.out[1];
  float sum = 0.0f;
  for (long d = threadIdx.x % 32; d < s.value_dim; d += 32) {
    sum = fmaf(get(dout, upstream + d * s.dout[2]), get(out, own + d * s.out[2]), sum);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) delta[unit] = sum;
}

// dsinks[head] (+)= - the sum over rows of exp(sink - lse) delta; rows that see no key have an lse of -inf.
KERNEL(attention_dsinks)(const float* delta, Tensor lse, Tensor sinks, Tensor dsinks, AttentionSizes s) {
  SHARED float scratch[32];
  const long head = blockIdx.x;
  const float sink = sinks.as<float>()[head * s.sinks];
  float sum = 0.0f;
  for (long row = threadIdx.x; row < s.q_rows; row += blockDim.x) {
    const float own = lse.as<float>()[row * s.lse[0] + head * s.lse[1]];
    if (own != -infinity()) sum -= expf(sink - own) * delta[row * s.heads + head];
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) put_or_add(dsinks, head * s.dsinks, sum);
}

namespace {

// A score's weight p and its gradient ds, of the products of query and key, and of dout and value.
struct Weight {
  float p, ds;
};
DEVICE Weight weight_of(float dot, float pulled, float lse, float delta, const AttentionSizes& s) {
  float score = dot * s.scale;
  float slope = s.scale;
  if (s.softcap > 0.0f) {
    const float t = tanhf(score / s.softcap);
    score = s.softcap * t;
    slope *= 1.0f - t * t;
  }
  const float p = expf(score - lse);
  return {p, p * (pulled - delta) * slope};
}

// Query rows and keys of one sequence and kv head.
struct Sequence {
  int first_row, rows, first_key, keys, kv_head, group;
  DEVICE_MEMBER int shift() const { return keys - rows; }
  DEVICE_MEMBER long row(int entry) const { return first_row + entry / group; }
  DEVICE_MEMBER int head(int entry) const { return kv_head * group + entry % group; }
  DEVICE_MEMBER int position(int entry) const { return entry / group + shift(); }
};

// Shared memory of a block of `rows` rows that streams over `others`; local_bytes of attention_backward.cpp.
struct Room {
  float* at;
  DEVICE_MEMBER float* take(int count) {
    float* const begin = at;
    at += count;
    return begin;
  }
};

DEVICE void load_entries(const Tensor& from, const long (&strides)[3], const Sequence& of, int begin, int total,
                         int count, long width, int pitch, float* lying, float* turned) {
  load_rows(from, total, count, static_cast<int>(width), pitch, strides[2], lying, turned,
            [&](int e) { return of.row(begin + e) * strides[0] + of.head(begin + e) * strides[1]; });
}
DEVICE void load_keys(const Tensor& from, const long (&strides)[4], const Sequence& of, int begin, int total, int count,
                      long width, int pitch, float* lying, float* turned) {
  load_rows(from, total, count, static_cast<int>(width), pitch, strides[3], lying, turned, [&](int j) {
    return (static_cast<long>(of.first_key) + begin + j) * strides[1] + of.kv_head * strides[2];
  });
}
DEVICE void load_numbers(const Tensor& lse, const float* delta, const Sequence& of, int begin, int total, int count,
                         float* row_lse, float* row_delta, const AttentionSizes& s) {
  for (int e = threadIdx.x; e < total; e += blockDim.x) {
    const long row = of.row(begin + e);
    const int head = of.head(begin + e);
    row_lse[e] = e < count ? lse.as<float>()[row * s.lse[0] + head * s.lse[1]] : 0.0f;
    row_delta[e] = e < count ? delta[row * s.heads + head] : 0.0f;
  }
}

}  // namespace

// dq: a block takes s.tile entries and streams over their keys.
KERNEL(attention_dq)
(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor lse, const float* delta, Tensor bounds_q, Tensor bounds_k,
 Tensor mask, Tensor dq, AttentionSizes s) {
  DYNAMIC_SHARED(float, memory);
  const int head = s.head_pitch, value = s.value_pitch, width = static_cast<int>(s.head_dim);
  Room room = {memory};
  float* const gradients = room.take(s.tile * s.tile_keys);
  float* const queries = room.take(s.tile * head);
  float* const sums = room.take(s.tile * head);
  float* const upstream = room.take(s.tile * value);
  float* const keys = room.take(s.tile_keys * head);
  float* const turned_keys = room.take(s.tile_keys * head);
  float* const turned_values = room.take(s.tile_keys * value);
  float* const row_lse = room.take(s.tile);
  float* const row_delta = room.take(s.tile);
  const int group = static_cast<int>(s.heads / s.kv_heads);
  const Place place = place_of(blockIdx.x, group, s.tile, bounds_q.as<int>(), static_cast<int>(s.q_rows),
                               static_cast<int>(s.sequences));
  const int first = place.tile * s.tile;
  const int left = place.rows * group - first;
  if (left <= 0) return;
  Sequence of = {place.first_row, place.rows, 0, 0, static_cast<int>(blockIdx.y), group};
  if (place.sequence >= 0) {
    of.first_key = bounds_k.as<int>()[place.sequence];
    of.keys = bounds_k.as<int>()[place.sequence + 1] - of.first_key;
  }
  const int entries = left < s.tile ? left : s.tile;
  const int low = of.position(first), high = of.position(first + entries - 1);
  const Span span = keys_of(low, high, of.keys, s);
  load_entries(q, s.q, of, first, s.tile, entries, s.head_dim, head, queries, nullptr);
  load_entries(dout, s.dout, of, first, s.tile, entries, s.value_dim, value, upstream, nullptr);
  load_numbers(lse, delta, of, first, s.tile, entries, row_lse, row_delta, s);
  clear(sums, s.tile * head);
  for (int begin = span.first / s.tile_keys * s.tile_keys; begin < span.last; begin += s.tile_keys) {
    const bool whole = entries == s.tile && all_see(low, high, begin, begin + s.tile_keys, of.keys, s);
    const int count = of.keys - begin < s.tile_keys ? of.keys - begin : s.tile_keys;
    __syncthreads();
    load_keys(k, s.k, of, begin, s.tile_keys, count, s.head_dim, head, keys, turned_keys);
    load_keys(v, s.v, of, begin, s.tile_keys, count, s.value_dim, value, nullptr, turned_values);
    __syncthreads();
    const int vectors = s.tile_keys / W;
    for (int at = threadIdx.x; at < s.tile / RQ * vectors; at += blockDim.x) {
      const int e = at / vectors * RQ;
      const int j = at % vectors * W;
      Quad dots[RQ], pulled[RQ];
      multiply_turned(queries + e * head, head, turned_keys + j, s.tile_keys, width, dots);
      multiply_turned(upstream + e * value, value, turned_values + j, s.tile_keys, static_cast<int>(s.value_dim),
                      pulled);
      for (int r = 0; r < RQ; ++r) {
        const int entry = first + e + r;
        const Span shown = keys_of(of.position(entry), of.position(entry), of.keys, s);
        Quad ds;
        for (int w = 0; w < W; ++w) {
          const bool seen = whole || (e + r < entries && sees(shown, begin + j + w, of.row(entry), mask, s));
          ds.x[w] = seen ? weight_of(dots[r].x[w], pulled[r].x[w], row_lse[e + r], row_delta[e + r], s).ds : kHidden;
        }
        store_quad(gradients + (e + r) * s.tile_keys + j, ds);
      }
    }
    __syncthreads();
    add_weighted(sums, gradients, keys, head, count, whole, s);
  }
  __syncthreads();
  for (int at = threadIdx.x; at < entries * width; at += blockDim.x) {
    const int e = at / width, d = at % width;
    put(dq, of.row(first + e) * s.dq[0] + of.head(first + e) * s.dq[1] + d * s.dq[2], sums[e * head + d]);
  }
}

// dk and dv: a block takes s.tile keys of one kv head and streams over the entries that see one of them, s.tile_keys at
// a time, which lie turned.
KERNEL(attention_dkv)
(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor lse, const float* delta, Tensor bounds_q, Tensor bounds_k,
 Tensor mask, Tensor dk, Tensor dv, AttentionSizes s) {
  DYNAMIC_SHARED(float, memory);
  const int head = s.head_pitch, value = s.value_pitch, others = s.tile_keys;
  const int width = static_cast<int>(s.head_dim), value_width = static_cast<int>(s.value_dim);
  Room room = {memory};
  float* const weights = room.take(s.tile * others);
  float* const gradients = room.take(s.tile * others);
  float* const keys = room.take(s.tile * head);
  float* const key_sums = room.take(s.tile * head);
  float* const values = room.take(s.tile * value);
  float* const value_sums = room.take(s.tile * value);
  float* const queries = room.take(others * head);
  float* const turned_queries = room.take(others * head);
  float* const upstream = room.take(others * value);
  float* const turned_upstream = room.take(others * value);
  float* const row_lse = room.take(others);
  float* const row_delta = room.take(others);
  const int group = static_cast<int>(s.heads / s.kv_heads);
  const Place place =
      place_of(blockIdx.x, 1, s.tile, bounds_k.as<int>(), static_cast<int>(s.k_rows), static_cast<int>(s.sequences));
  const int first = place.tile * s.tile;
  if (first >= place.rows) return;
  const int count = place.rows - first < s.tile ? place.rows - first : s.tile;
  Sequence of = {0, 0, place.first_row, place.rows, static_cast<int>(blockIdx.y), group};
  if (place.sequence >= 0) {
    of.first_row = bounds_q.as<int>()[place.sequence];
    of.rows = bounds_q.as<int>()[place.sequence + 1] - of.first_row;
  }
  const Span span = positions_of(first, first + count, of.rows, of.keys, s);
  const int from = (span.first > of.shift() ? span.first - of.shift() : 0) * group;
  const int last = (span.last - of.shift() < of.rows ? span.last - of.shift() : of.rows) * group;
  const int read = of.rows > 0 ? count : 0;
  load_keys(k, s.k, of, first, s.tile, read, s.head_dim, head, keys, nullptr);
  load_keys(v, s.v, of, first, s.tile, read, s.value_dim, value, values, nullptr);
  clear(key_sums, s.tile * head);
  clear(value_sums, s.tile * value);
  for (int begin = from; begin < last; begin += others) {
    const int there = of.rows * group - begin;
    const int entries = there < others ? there : others;
    const bool whole = count == s.tile && entries == others &&
                       all_see(of.position(begin), of.position(begin + others - 1), first, first + s.tile, of.keys, s);
    __syncthreads();
    load_entries(q, s.q, of, begin, others, entries, s.head_dim, head, queries, turned_queries);
    load_entries(dout, s.dout, of, begin, others, entries, s.value_dim, value, upstream, turned_upstream);
    load_numbers(lse, delta, of, begin, others, entries, row_lse, row_delta, s);
    __syncthreads();
    const int vectors = others / W;
    for (int at = threadIdx.x; at < s.tile / RQ * vectors; at += blockDim.x) {
      const int j = at / vectors * RQ;
      const int e = at % vectors * W;
      Quad dots[RQ], pulled[RQ];
      multiply_turned(keys + j * head, head, turned_queries + e, others, width, dots);
      multiply_turned(values + j * value, value, turned_upstream + e, others, value_width, pulled);
      for (int w = 0; w < W; ++w) {
        const int entry = begin + e + w;
        const Span shown = keys_of(of.position(entry), of.position(entry), of.keys, s);
        for (int r = 0; r < RQ; ++r) {
          const bool seen = whole || (e + w < entries && sees(shown, first + j + r, of.row(entry), mask, s));
          const Weight both = seen ? weight_of(dots[r].x[w], pulled[r].x[w], row_lse[e + w], row_delta[e + w], s)
                                   : Weight{kHidden, kHidden};
          weights[(j + r) * others + e + w] = both.p;
          gradients[(j + r) * others + e + w] = both.ds;
        }
      }
    }
    __syncthreads();
    add_weighted(key_sums, gradients, queries, head, entries, whole, s);
    add_weighted(value_sums, weights, upstream, value, entries, whole, s);
  }
  __syncthreads();
  for (int at = threadIdx.x; at < count * width; at += blockDim.x) {
    const int j = at / width, d = at % width;
    put(dk, (static_cast<long>(of.first_key) + first + j) * s.dk[0] + of.kv_head * s.dk[1] + d * s.dk[2],
        key_sums[j * head + d]);
  }
  for (int at = threadIdx.x; at < count * value_width; at += blockDim.x) {
    const int j = at / value_width, d = at % value_width;
    put(dv, (static_cast<long>(of.first_key) + first + j) * s.dv[0] + of.kv_head * s.dv[1] + d * s.dv[2],
        value_sums[j * value + d]);
  }
}
