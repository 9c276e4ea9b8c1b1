// attention and attention_paged: softmax over streamed tiles of keys (Dao et al., "FlashAttention", 2022).
//
// A work-group takes TILE entries (attention_tile.clh) and streams over KEYS keys at a time. Scores and values are
// products of micro-tiles, RQ entries by W keys or features, which the GROUP work-items share. Keys lie turned in local
// memory, so that W of them are one vector; where a tile has few entries (DIRECT) they are read where they lie. Tiles
// of keys begin at multiples of KEYS from the sequence's first key, so a row's sums don't depend on the rows beside it.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/attention_tile.clh"

// Where row j of the sequence's keys or values begins.
#if PAGED
static inline long key_row(const global int* blocks, const Place* place, const long* strides, long j, long kv_head,
                           const AttentionSizes* s) {
  const long block = blocks[place->sequence * s->max_blocks + j / s->block_size];
  return block * strides[0] + j % s->block_size * strides[1] + kv_head * strides[2];
}
#define FEATURE(strides) ((strides)[3])
#else
static inline long key_row(const global int* blocks, const Place* place, const long* strides, long j, long kv_head,
                           const AttentionSizes* s) {
  return (place->first_key + j) * strides[0] + kv_head * strides[1];
}
#define FEATURE(strides) ((strides)[2])
#endif
#define KEY_ROW(strides, j) key_row(AS(int, table), &place, (strides), (j), kv_head, &s)

kernel IN_GROUP void attention(INPUT(q), INPUT(k), INPUT(v), INPUT(table), INPUT(bounds_q), INPUT(bounds_k),
                               INPUT(sinks), INPUT(mask), OUTPUT(out), OUTPUT(lse), OUTPUT(partial),
                               local float* room, const AttentionSizes s) {
  local float* const weights = room;  // [TILE, KEYS]
  local float* const queries = weights + TILE * KEYS;
  local float* const sums = queries + TILE * HEAD;
#if DIRECT
  local float* const largest = sums + TILE * VALUE;
#else
  local float* const turned = sums + TILE * VALUE;
  local float* const values = turned + HEAD * KEYS;
  local float* const largest = values + KEYS * VALUE;
#endif
  local float* const total = largest + TILE;
  local float* const shrink = total + TILE;
  const int item = get_local_id(0);
  const long kv_head = get_group_id(1);
  const long part = get_group_id(2);
  const long group = s.heads / s.kv_heads;
  Place place = place_of(get_group_id(0), group, TILE, AS(int, bounds_q), s.q_rows, &s);
  if (place.tile * TILE >= place.rows * group) return;
  if (place.sequence >= 0) {
#if PAGED
    place.keys = AS(int, bounds_k)[place.sequence];
#else
    place.first_key = AS(int, bounds_k)[place.sequence];
    place.keys = AS(int, bounds_k)[place.sequence + 1] - place.first_key;
#endif
  }
  const long first_entry = place.tile * TILE;
  const int entries = (int)min((long)TILE, place.rows * group - first_entry);
  const long shift = place.keys - place.rows;  // of a row to its position
  const long low = first_entry / group + shift;
  const long high = (first_entry + entries - 1) / group + shift;
  Span span = keys_of(low, high, place.keys, &s);
  span.first = max(span.first, part * s.part_keys);
  span.last = min(span.last, (part + 1) * s.part_keys);

  for (int at = item; at < TILE * (HEAD / W); at += GROUP) {
    const int e = at / (HEAD / W);
    const int d = at % (HEAD / W) * W;
    floatW x = (floatW)0.0f;
    if (e < entries) {
      const long row = place.first_row + (first_entry + e) / group;
      const long head = kv_head * group + (first_entry + e) % group;
      x = FETCH(q, row * s.q[0] + head * s.q[1] + d * s.q[2], s.q[2], s.head_dim - d);
    }
    vstoreW(x * s.scale, 0, queries + e * HEAD + d);
  }
  for (int at = item; at < TILE * (VALUE / W); at += GROUP) vstoreW((floatW)0.0f, at, sums);
  for (int e = item; e < TILE; e += GROUP) {
    largest[e] = -INFINITY;
    total[e] = 0.0f;
  }
  MEET;
  for (long begin = span.first / KEYS * KEYS; begin < span.last; begin += KEYS) {
    const bool whole = all_see(low, high, begin, begin + KEYS, place.keys, &s);
    const int count = (int)min((long)KEYS, place.keys - begin);
#if DIRECT
    for (int at = item; at < KEYS * (TILE / RQ); at += GROUP) {
      const int j = at % KEYS;
      const int e = at / KEYS * RQ;
      floatW dots[RQ];
#pragma unroll
      for (int r = 0; r < RQ; ++r) dots[r] = (floatW)0.0f;
      if (j < count) {
        const long row = KEY_ROW(s.k, begin + j);
        for (int d = 0; d < HEAD; d += W) {
          const floatW key = FETCH(k, row + d * FEATURE(s.k), FEATURE(s.k), s.head_dim - d);
#pragma unroll
          for (int r = 0; r < RQ; ++r) dots[r] += vloadW(0, queries + (e + r) * HEAD + d) * key;
        }
      }
#pragma unroll
      for (int r = 0; r < RQ; ++r) weights[(e + r) * KEYS + j] = sum_of(dots[r]);
    }
#else
    for (int at = item; at < KEYS * (HEAD / W); at += GROUP) {
      const int j = at % KEYS;
      const int d = at / KEYS * W;
      floatW x = (floatW)0.0f;
      if (j < count) x = FETCH(k, KEY_ROW(s.k, begin + j) + d * FEATURE(s.k), FEATURE(s.k), s.head_dim - d);
      float some[W];
      vstoreW(x, 0, some);
#pragma unroll
      for (int i = 0; i < W; ++i) turned[(d + i) * KEYS + j] = some[i];
    }
    for (int at = item; at < KEYS * (VALUE / W); at += GROUP) {
      const int j = at / (VALUE / W);
      const int d = at % (VALUE / W) * W;
      floatW x = (floatW)0.0f;
      if (j < count) x = FETCH(v, KEY_ROW(s.v, begin + j) + d * FEATURE(s.v), FEATURE(s.v), s.value_dim - d);
      vstoreW(x, 0, values + j * VALUE + d);
    }
    MEET;
    for (int at = item; at < (TILE / RQ) * (KEYS / W); at += GROUP) {
      const int e = at / (KEYS / W) * RQ;
      const int j = at % (KEYS / W) * W;
      floatW dots[RQ];
      multiply_turned(queries + e * HEAD, HEAD, turned + j, (int)s.head_dim, dots);
#pragma unroll
      for (int r = 0; r < RQ; ++r) vstoreW(dots[r], 0, weights + (e + r) * KEYS + j);
    }
#endif
    MEET;
    for (int e = item; e < TILE; e += GROUP) {
      local float* const scores = weights + e * KEYS;
      const long position = (first_entry + e) / group + shift;
      Span shown = keys_of(position, position, place.keys, &s);
      if (e >= entries) shown.last = 0;
      const long row = place.first_row + (first_entry + e) / group;
      floatW peak = (floatW)(-INFINITY);
      for (int j = 0; j < KEYS; j += W) {
        floatW score = vloadW(0, scores + j);
        if (s.softcap > 0.0f) score = s.softcap * tanh(score / s.softcap);
        if (!whole) score = select((floatW)(-INFINITY), score, SHOWN(begin + j, shown, row));
        vstoreW(score, 0, scores + j);
        peak = fmax(peak, score);
      }
      const float before = largest[e];
      const float now = fmax(before, largest_of(peak));
      const float kept = before == now ? 1.0f : exp(before - now);
      floatW sum = (floatW)0.0f;
      for (int j = 0; j < KEYS; j += W) {
        const floatW score = vloadW(0, scores + j);
        floatW p = exp_of(score - now);
        if (isinf(now)) p = select(p, (floatW)1.0f, score == now);
        if (!whole) p = select((floatW)HIDDEN, p, SHOWN(begin + j, shown, row));
        sum += p;
        vstoreW(p, 0, scores + j);
      }
      largest[e] = now;
      total[e] = total[e] * kept + sum_of(sum);
      shrink[e] = kept;
    }
    MEET;
    for (int at = item; at < (TILE / RQ) * (VALUE / W); at += GROUP) {
      const int e = at / (VALUE / W) * RQ;
      const int d = at % (VALUE / W) * W;
      floatW sum[RQ];
#pragma unroll
      for (int r = 0; r < RQ; ++r) sum[r] = vloadW(0, sums + (e + r) * VALUE + d) * shrink[e + r];
      for (int j = 0; j < count; ++j) {
#if DIRECT
        const floatW value =
            FETCH(v, KEY_ROW(s.v, begin + j) + d * FEATURE(s.v), FEATURE(s.v), s.value_dim - d);
#else
        const floatW value = vloadW(0, values + j * VALUE + d);
#endif
        if (whole) {
#pragma unroll
          for (int r = 0; r < RQ; ++r) sum[r] += weights[(e + r) * KEYS + j] * value;
        } else {
#pragma unroll
          for (int r = 0; r < RQ; ++r) {
            const float p = weights[(e + r) * KEYS + j];
            if (!is_hidden(p)) sum[r] += p * value;
          }
        }
      }
#pragma unroll
      for (int r = 0; r < RQ; ++r) vstoreW(sum[r], 0, sums + (e + r) * VALUE + d);
    }
    MEET;
  }
  if (s.parts > 1) {
    // partial: [entry of all, part, 2] of the largest score and the sum, then [entry of all, part, value_dim].
    const long all = s.q_rows * s.heads * s.parts;
    for (int at = item; at < entries * (VALUE / W); at += GROUP) {
      const int e = at / (VALUE / W);
      const int d = at % (VALUE / W) * W;
      const long row = place.first_row + (first_entry + e) / group;
      const long place_of_part = (row * s.heads + kv_head * group + (first_entry + e) % group) * s.parts + part;
      if (d == 0) {
        AS_OUT(float, partial)[2 * place_of_part] = largest[e];
        AS_OUT(float, partial)[2 * place_of_part + 1] = total[e];
      }
      if (total[e] != 0.0f && d < s.value_dim) {
        SPREAD_FLOATS(partial, 2 * all + place_of_part * s.value_dim + d, 1, s.value_dim - d,
                vloadW(0, sums + e * VALUE + d));
      }
    }
    return;
  }
  for (int at = item; at < entries * (VALUE / W); at += GROUP) {
    const int e = at / (VALUE / W);
    const int d = at % (VALUE / W) * W;
    const long row = place.first_row + (first_entry + e) / group;
    const long head = kv_head * group + (first_entry + e) % group;
    const bool empty = total[e] == 0.0f;
    float peak = largest[e];
    float factor = 1.0f;
    float sum = total[e];
    if (s.has_sinks != 0 && !empty) {
      const float sink = AS(float, sinks)[head * s.sinks];
      peak = fmax(peak, sink);
      factor = largest[e] == peak ? 1.0f : exp(largest[e] - peak);
      sum = sum * factor + (sink == peak ? 1.0f : exp(sink - peak));
    }
    if (isinf(peak)) factor = NAN;
    // In the order of attention_merge, which has the same bits where one part has all the keys.
    const floatW result = empty ? (floatW)0.0f : vloadW(0, sums + e * VALUE + d) * factor * (1.0f / sum);
    SPREAD(out, row * s.out[0] + head * s.out[1] + d * s.out[2], s.out[2], s.value_dim - d, result);
    if (s.has_lse != 0 && d == 0) AS_OUT(float, lse)[row * s.lse[0] + head * s.lse[1]] = empty ? -INFINITY : peak + log(sum);
  }
}

// Merges the parts of each row and head, in their order.
kernel void attention_merge(INPUT(partial), INPUT(sinks), OUTPUT(out),
                              OUTPUT(lse), const AttentionSizes s) {
  const long unit = get_global_id(0);
  if (unit >= s.q_rows * s.heads) return;
  const long row = unit / s.heads;
  const long head = unit % s.heads;
  const global float* const heads_of_parts = AS(float, partial) + 2 * unit * s.parts;
  const long sums = 2 * s.q_rows * s.heads * s.parts + unit * s.parts * s.value_dim;
  float peak = -INFINITY;
  bool empty = true;
  for (long part = 0; part < s.parts; ++part) {
    if (heads_of_parts[2 * part + 1] == 0.0f) continue;
    peak = fmax(peak, heads_of_parts[2 * part]);
    empty = false;
  }
  float sum = 0.0f;
  if (s.has_sinks != 0 && !empty) {
    const float sink = AS(float, sinks)[head * s.sinks];
    peak = fmax(peak, sink);
    sum = sink == peak ? 1.0f : exp(sink - peak);
  }
  for (long part = 0; part < s.parts; ++part) {
    const float its_sum = heads_of_parts[2 * part + 1];
    const float its_peak = heads_of_parts[2 * part];
    if (its_sum != 0.0f) sum += its_sum * (its_peak == peak ? 1.0f : exp(its_peak - peak));
  }
  if (s.has_lse != 0) AS_OUT(float, lse)[row * s.lse[0] + head * s.lse[1]] = empty ? -INFINITY : peak + log(sum);
  const float whole = isinf(peak) ? NAN : 1.0f / sum;
  for (long d = 0; d < s.value_dim; d += W) {
    floatW result = (floatW)0.0f;
    for (long part = 0; part < s.parts && !empty; ++part) {
      if (heads_of_parts[2 * part + 1] == 0.0f) continue;
      const float its_peak = heads_of_parts[2 * part];
      const float factor = its_peak == peak ? 1.0f : exp(its_peak - peak);
      result += FLOATS(partial, sums + part * s.value_dim + d, 1, s.value_dim - d) * factor;
    }
    SPREAD(out, row * s.out[0] + head * s.out[1] + d * s.out[2], s.out[2], s.value_dim - d,
             empty ? result : result * whole);
  }
}
