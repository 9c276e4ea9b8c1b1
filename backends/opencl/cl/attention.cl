// attention and attention_paged: softmax over streamed tiles of keys (Dao et al., "FlashAttention", 2022).
//
// A work-group takes TILE entries (attention_tile.clh) and streams over KEYS keys at a time. Scores and values are
// products of micro-tiles, RQ entries by W keys or features, which the GROUP work-items share. Keys lie turned in local
// memory, so that W of them are one vector; where a tile has few entries (DIRECT) they are read where they lie. Tiles
// of keys begin at multiples of KEYS from the sequence's first key, so a row's sums don't depend on the rows beside it.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/attention_tile.clh"
#include "backends/opencl/cl/codes.clh"

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

// A tile of entries and the keys that it is at.
typedef struct {
  Place place;
  long kv_head, group;
  long first_entry, shift;  // of a row to its position
  long begin;               // of the keys
  int entries, count;
  bool whole;  // every entry sees every key
} Tile;
typedef struct {
  long row, head;
} Entry;
static inline Entry entry_of(const Tile* tile, int e) {
  const long at = tile->first_entry + e;
  const Entry out = {tile->place.first_row + at / tile->group, tile->kv_head * tile->group + at % tile->group};
  return out;
}
#define KEY_ROW(strides, j) key_row(blocks, &tile->place, (strides), tile->begin + (j), tile->kv_head, s)

// Keys or values of the tile's row j are codes times SCALE_OF: CODES says so, else they are as they lie.
#if CODES
#define fetch_kept fetch_codes
#define SCALE_OF(scales, strides, j) (scales)[KEY_ROW(strides, j)]
#else
#define fetch_kept fetch
#define SCALE_OF(scales, strides, j) 1.0f
#endif

#if DIRECT
// weights [TILE, KEYS] = the products of queries and keys, which are read where they lie.
static inline void score(local float* weights, const local float* queries, const global uchar* k,
                         const global float* scales, const global int* blocks, const Tile* tile,
                         const AttentionSizes* s) {
  for (int at = get_local_id(0); at < KEYS * (TILE / RQ); at += GROUP) {
    const int j = at % KEYS;
    const int e = at / KEYS * RQ;
    floatW dots[RQ];
#pragma unroll
    for (int r = 0; r < RQ; ++r) dots[r] = (floatW)0.0f;
    float scale = 1.0f;
    if (j < tile->count) {
      const long row = KEY_ROW(s->k, j);
      scale = SCALE_OF(scales, s->k_scale, j);
      for (int d = 0; d < s->head_pitch; d += W) {
        const floatW key = fetch_kept(k_T, k, row + d * FEATURE(s->k), FEATURE(s->k), s->head_dim - d);
#pragma unroll
        for (int r = 0; r < RQ; ++r) dots[r] += vloadW(0, queries + (e + r) * s->head_pitch + d) * key;
      }
    }
#pragma unroll
    for (int r = 0; r < RQ; ++r) weights[(e + r) * KEYS + j] = sum_of(dots[r]) * scale;
  }
}

// sums [TILE, value_pitch] += weights by values, which are read where they lie.
static inline void add_values(local float* sums, const local float* weights, const global uchar* v,
                              const global float* scales, const global int* blocks, const Tile* tile,
                              const AttentionSizes* s) {
  const int vectors = s->value_pitch / W;
  for (int at = get_local_id(0); at < (TILE / RQ) * vectors; at += GROUP) {
    const int e = at / vectors * RQ;
    const int d = at % vectors * W;
    floatW sum[RQ];
#pragma unroll
    for (int r = 0; r < RQ; ++r) sum[r] = vloadW(0, sums + (e + r) * s->value_pitch + d);
    for (int j = 0; j < tile->count; ++j) {
      const float scale = SCALE_OF(scales, s->v_scale, j);
      const floatW value =
          fetch_kept(v_T, v, KEY_ROW(s->v, j) + d * FEATURE(s->v), FEATURE(s->v), s->value_dim - d) * scale;
#pragma unroll
      for (int r = 0; r < RQ; ++r) {
        const float weight = weights[(e + r) * KEYS + j];
        if (tile->whole || !is_hidden(weight)) sum[r] += weight * value;
      }
    }
#pragma unroll
    for (int r = 0; r < RQ; ++r) vstoreW(sum[r], 0, sums + (e + r) * s->value_pitch + d);
  }
}
#else
// Rows of keys or values into local memory, turned [pitch, KEYS] or as they lie [KEYS, pitch]; behind the last key 0.
static inline void load_keys(int type, const global uchar* from, const long* strides, const global float* scales,
                             const long* scale_strides, int width, int pitch, local float* turned, local float* lying,
                             const global int* blocks, const Tile* tile, const AttentionSizes* s) {
  for (int at = get_local_id(0); at < KEYS * (pitch / W); at += GROUP) {
    const int j = at % KEYS;
    const int d = at / KEYS * W;
    floatW x = (floatW)0.0f;
    if (j < tile->count) {
      x = fetch_kept(type, from, KEY_ROW(strides, j) + d * FEATURE(strides), FEATURE(strides), width - d) *
          SCALE_OF(scales, scale_strides, j);
    }
    if (lying != 0) vstoreW(x, 0, lying + j * pitch + d);
    if (turned == 0) continue;
    float some[W];
    vstoreW(x, 0, some);
#pragma unroll
    for (int i = 0; i < W; ++i) turned[(d + i) * KEYS + j] = some[i];
  }
}

// weights [TILE, KEYS] = the products of queries and turned keys.
static inline void score(local float* weights, const local float* queries, const local float* turned,
                         const AttentionSizes* s) {
  for (int at = get_local_id(0); at < (TILE / RQ) * (KEYS / W); at += GROUP) {
    const int e = at / (KEYS / W) * RQ;
    const int j = at % (KEYS / W) * W;
    floatW dots[RQ];
    multiply_turned(queries + e * s->head_pitch, s->head_pitch, turned + j, (int)s->head_dim, dots);
#pragma unroll
    for (int r = 0; r < RQ; ++r) vstoreW(dots[r], 0, weights + (e + r) * KEYS + j);
  }
}
#endif

// Scores become weights beside the largest score so far; the sums of before shrink by as much as it grew. A score that
// is infinite and the largest has a weight of 1: what it makes of the row is decided at its end.
static inline void soften(local float* weights, local float* largest, local float* total, local float* shrink,
                          const global uchar* mask, const Tile* tile, const AttentionSizes* s) {
  for (int e = get_local_id(0); e < TILE; e += GROUP) {
    local float* const scores = weights + e * KEYS;
    const long position = (tile->first_entry + e) / tile->group + tile->shift;
    const long row = entry_of(tile, e).row;
    Span shown = keys_of(position, position, tile->place.keys, s);
    if (e >= tile->entries) shown.last = 0;
    floatW peak = (floatW)(-INFINITY);
    for (int j = 0; j < KEYS; j += W) {
      floatW score = vloadW(0, scores + j);
      if (s->softcap > 0.0f) score = s->softcap * tanh(score / s->softcap);
      if (!tile->whole) score = select((floatW)(-INFINITY), score, shown_of(tile->begin + j, shown, row, mask, s));
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
      if (!tile->whole) p = select((floatW)HIDDEN, p, shown_of(tile->begin + j, shown, row, mask, s));
      sum += p;
      vstoreW(p, 0, scores + j);
    }
    largest[e] = now;
    total[e] = total[e] * kept + sum_of(sum);
    shrink[e] = kept;
  }
}
static inline void shrink_sums(local float* sums, const local float* shrink, int pitch) {
  for (int at = get_local_id(0); at < TILE * (pitch / W); at += GROUP) {
    const float kept = shrink[at / (pitch / W)];
    if (kept != 1.0f) vstoreW(vloadW(at, sums) * kept, at, sums);
  }
}

// partial: [row, head, part, 2] of the largest score and the sum, then [row, head, part, value_dim].
static inline void write_part(global float* partial, const local float* sums, const local float* largest,
                              const local float* total, long part, const Tile* tile, const AttentionSizes* s) {
  const long all = s->q_rows * s->heads * s->parts;
  const int vectors = s->value_pitch / W;
  for (int at = get_local_id(0); at < tile->entries * vectors; at += GROUP) {
    const int e = at / vectors;
    const int d = at % vectors * W;
    const Entry entry = entry_of(tile, e);
    const long to = (entry.row * s->heads + entry.head) * s->parts + part;
    if (d == 0) {
      partial[2 * to] = largest[e];
      partial[2 * to + 1] = total[e];
    }
    if (total[e] != 0.0f && d < s->value_dim) {
      spread(F32, (global uchar*)partial, 2 * all + to * s->value_dim + d, 1, s->value_dim - d,
             vloadW(0, sums + e * s->value_pitch + d));
    }
  }
}

kernel IN_GROUP void attention(INPUT(q), INPUT(k), INPUT(v), INPUT(table), INPUT(bounds_q), INPUT(bounds_k),
                               INPUT(sinks), INPUT(mask), OUTPUT(out), OUTPUT(lse), INPUT(k_scale),
                               INPUT(v_scale), OUTPUT(partial), local float* room, const AttentionSizes s) {
  local float* const weights = room;  // [TILE, KEYS]
  local float* const queries = weights + TILE * KEYS;
  local float* const sums = queries + TILE * HEAD;
  local float* const largest = sums + TILE * VALUE;
  local float* const total = largest + TILE;
  local float* const shrink = total + TILE;
  local float* const turned = shrink + TILE;
  local float* const values = turned + HEAD * KEYS;
  const int item = get_local_id(0);
  Tile tile;
  tile.kv_head = get_group_id(1);
  tile.group = s.heads / s.kv_heads;
  tile.place = place_of(get_group_id(0), tile.group, TILE, AS(int, bounds_q), s.q_rows, &s);
  Place* const place = &tile.place;
  if (place->tile * TILE >= place->rows * tile.group) return;
  if (place->sequence >= 0) {
    place->first_key = PAGED ? 0 : AS(int, bounds_k)[place->sequence];
    place->keys = AS(int, bounds_k)[place->sequence + (PAGED ? 0 : 1)] - place->first_key;
  }
  tile.first_entry = place->tile * TILE;
  tile.entries = (int)min((long)TILE, place->rows * tile.group - tile.first_entry);
  tile.shift = place->keys - place->rows;
  const long low = tile.first_entry / tile.group + tile.shift;
  const long high = (tile.first_entry + tile.entries - 1) / tile.group + tile.shift;
  Span span = keys_of(low, high, place->keys, &s);
  const long part = get_group_id(2);
  span.first = max(span.first, part * s.part_keys);
  span.last = min(span.last, (part + 1) * s.part_keys);
  const Rows of_q = {place->first_row * s.q[0] + tile.kv_head * tile.group * s.q[1], tile.first_entry, tile.group,
                     {s.q[0], s.q[1], s.q[2]}, tile.entries, TILE, (int)s.head_dim, HEAD};
  load_rows(q_T, AT(q), &of_q, queries, 0);
  clear_sums(sums, VALUE);
  for (int e = item; e < TILE; e += GROUP) {
    largest[e] = -INFINITY;
    total[e] = 0.0f;
  }
  MEET;
  for (int at = item; at < TILE * (HEAD / W); at += GROUP) vstoreW(vloadW(at, queries) * s.scale, at, queries);
  MEET;
  for (tile.begin = span.first / KEYS * KEYS; tile.begin < span.last; tile.begin += KEYS) {
    tile.whole = all_see(low, high, tile.begin, tile.begin + KEYS, place->keys, &s);
    tile.count = (int)min((long)KEYS, place->keys - tile.begin);
#if DIRECT
    score(weights, queries, AT(k), AS(float, k_scale), AS(int, table), &tile, &s);
    MEET;
    soften(weights, largest, total, shrink, AT(mask), &tile, &s);
    MEET;
    shrink_sums(sums, shrink, VALUE);
    MEET;
    add_values(sums, weights, AT(v), AS(float, v_scale), AS(int, table), &tile, &s);
#else
    load_keys(k_T, AT(k), s.k, AS(float, k_scale), s.k_scale, (int)s.head_dim, HEAD, turned, 0, AS(int, table), &tile,
              &s);
    load_keys(v_T, AT(v), s.v, AS(float, v_scale), s.v_scale, (int)s.value_dim, VALUE, 0, values, AS(int, table), &tile,
              &s);
    MEET;
    score(weights, queries, turned, &s);
    MEET;
    soften(weights, largest, total, shrink, AT(mask), &tile, &s);
    MEET;
    shrink_sums(sums, shrink, VALUE);
    MEET;
    add_weighted(sums, weights, values, VALUE, tile.count, tile.whole);
#endif
    MEET;
  }
  if (s.parts > 1) {
    write_part(AS_OUT(float, partial), sums, largest, total, part, &tile, &s);
    return;
  }
  for (int at = item; at < tile.entries * (VALUE / W); at += GROUP) {
    const int e = at / (VALUE / W);
    const int d = at % (VALUE / W) * W;
    const Entry entry = entry_of(&tile, e);
    const bool empty = total[e] == 0.0f;
    float peak = largest[e];
    float factor = 1.0f;
    float sum = total[e];
    if (s.has_sinks != 0 && !empty) {
      const float sink = AS(float, sinks)[entry.head * s.sinks];
      peak = fmax(peak, sink);
      factor = largest[e] == peak ? 1.0f : exp(largest[e] - peak);
      sum = sum * factor + (sink == peak ? 1.0f : exp(sink - peak));
    }
    if (isinf(peak)) factor = NAN;
    // In the order of attention_merge, which has the same bits where one part has all the keys.
    const floatW result = empty ? (floatW)0.0f : vloadW(0, sums + e * VALUE + d) * factor * (1.0f / sum);
    SPREAD(out, entry.row * s.out[0] + entry.head * s.out[1] + d * s.out[2], s.out[2], s.value_dim - d, result);
    if (s.has_lse != 0 && d == 0) {
      AS_OUT(float, lse)[entry.row * s.lse[0] + entry.head * s.lse[1]] = empty ? -INFINITY : peak + log(sum);
    }
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
