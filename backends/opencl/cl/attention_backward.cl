// attention_backward: scores and weights are computed again, tile by tile, once for dq and once for dk and dv. No sum
// crosses work-groups, so nothing depends on their order.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/attention_tile.clh"

// delta[row, head]: the sum of dout out.
kernel void attention_delta(INPUT(dout), INPUT(out), OUTPUT(delta), const AttentionSizes s) {
  const long unit = get_global_id(0);
  if (unit >= s.q_rows * s.heads) return;
  const long row = unit / s.heads;
  const long head = unit % s.heads;
  floatW sum = (floatW)0.0f;
  for (long d = 0; d < s.value_dim; d += W) {
    const long left = s.value_dim - d;
    sum += FETCH(dout, row * s.dout[0] + head * s.dout[1] + d * s.dout[2], s.dout[2], left) *
           FETCH(out, row * s.out[0] + head * s.out[1] + d * s.out[2], s.out[2], left);
  }
  AS_OUT(float, delta)[unit] = sum_of(sum);
}

// dsinks[head] (+)= - the sum over rows of exp(sink - lse) delta; rows that see no key have an lse of -inf.
kernel IN_GROUP void attention_dsinks(INPUT(delta), INPUT(lse), INPUT(sinks), OUTPUT(dsinks), const AttentionSizes s) {
  local float room[GROUP];
  const long head = get_group_id(0);
  const float sink = AS(float, sinks)[head * s.sinks];
  float sum = 0.0f;
  for (long row = get_local_id(0); row < s.q_rows; row += GROUP) {
    const float own = AS(float, lse)[row * s.lse[0] + head * s.lse[1]];
    if (own != -INFINITY) sum -= exp(sink - own) * AS(float, delta)[row * s.heads + head];
  }
  sum = group_sum(sum, room);
  if (get_local_id(0) == 0) PUT_OR_ADD(dsinks, head * s.dsinks, sum);
}

// Weights p and gradients ds of W scores, of which `dots` are the products of queries and keys, and `pulled` those of
// dout and values.
typedef struct {
  floatW p, ds;
} Weights;
static inline Weights weights_of(floatW dots, floatW pulled, floatW lse, floatW delta, const AttentionSizes* s) {
  floatW score = dots * s->scale;
  floatW slope = (floatW)s->scale;
  if (s->softcap > 0.0f) {
    const floatW t = tanh(score / s->softcap);
    score = s->softcap * t;
    slope *= 1.0f - t * t;
  }
  Weights out;
  out.p = exp_of(score - lse);
  out.ds = out.p * (pulled - delta) * slope;
  return out;
}

// dq: a work-group takes TILE entries and streams over their keys.
kernel IN_GROUP void attention_dq(INPUT(dout), INPUT(q), INPUT(k), INPUT(v), INPUT(lse), INPUT(delta), INPUT(bounds_q),
                                  INPUT(bounds_k), INPUT(mask), OUTPUT(dq), local float* room,
                                  const AttentionSizes s) {
  local float* const gradients = room;  // [TILE, KEYS]
  local float* const queries = gradients + TILE * KEYS;
  local float* const sums = queries + TILE * HEAD;
  local float* const upstream = sums + TILE * HEAD;
  local float* const keys = upstream + TILE * VALUE;
  local float* const turned_keys = keys + KEYS * HEAD;
  local float* const turned_values = turned_keys + KEYS * HEAD;
  local float* const row_lse = turned_values + KEYS * VALUE;
  local float* const row_delta = row_lse + TILE;
  const int item = get_local_id(0);
  const long kv_head = get_group_id(1);
  const long group = s.heads / s.kv_heads;
  Place place = place_of(get_group_id(0), group, TILE, AS(int, bounds_q), s.q_rows, &s);
  if (place.tile * TILE >= place.rows * group) return;
  if (place.sequence >= 0) {
    place.first_key = AS(int, bounds_k)[place.sequence];
    place.keys = AS(int, bounds_k)[place.sequence + 1] - place.first_key;
  }
  const long first_entry = place.tile * TILE;
  const int entries = (int)min((long)TILE, place.rows * group - first_entry);
  const long shift = place.keys - place.rows;
  const long low = first_entry / group + shift;
  const long high = (first_entry + entries - 1) / group + shift;
  const Span span = keys_of(low, high, place.keys, &s);
  const long q_start = place.first_row * s.q[0] + kv_head * group * s.q[1];
  const Rows of_q = {q_start, first_entry, group, {s.q[0], s.q[1], s.q[2]}, entries, TILE, (int)s.head_dim, HEAD};
  load_rows(q_T, AT(q), &of_q, queries, 0);
  const long dout_start = place.first_row * s.dout[0] + kv_head * group * s.dout[1];
  const Rows of_dout = {dout_start, first_entry, group, {s.dout[0], s.dout[1], s.dout[2]}, entries, TILE,
                        (int)s.value_dim, VALUE};
  load_rows(dout_T, AT(dout), &of_dout, upstream, 0);
  clear_sums(sums, HEAD);
  for (int e = item; e < TILE; e += GROUP) {
    const long row = place.first_row + (first_entry + e) / group;
    const long head = kv_head * group + (first_entry + e) % group;
    row_lse[e] = e < entries ? AS(float, lse)[row * s.lse[0] + head * s.lse[1]] : 0.0f;
    row_delta[e] = e < entries ? AS(float, delta)[row * s.heads + head] : 0.0f;
  }
  MEET;
  for (long begin = span.first / KEYS * KEYS; begin < span.last; begin += KEYS) {
    const bool whole = entries == TILE && all_see(low, high, begin, begin + KEYS, place.keys, &s);
    const int count = (int)min((long)KEYS, place.keys - begin);
    const Rows of_k = {kv_head * s.k[1], place.first_key + begin, 1, {s.k[0], 0, s.k[2]}, count, KEYS, (int)s.head_dim, HEAD};
    load_rows(k_T, AT(k), &of_k, keys, turned_keys);
    const Rows of_v = {kv_head * s.v[1], place.first_key + begin, 1, {s.v[0], 0, s.v[2]}, count, KEYS, (int)s.value_dim,
                       VALUE};
    load_rows(v_T, AT(v), &of_v, 0, turned_values);
    MEET;
    for (int at = item; at < (TILE / RQ) * (KEYS / W); at += GROUP) {
      const int e = at / (KEYS / W) * RQ;
      const int j = at % (KEYS / W) * W;
      floatW dots[RQ], pulled[RQ];
      multiply_turned(queries + e * HEAD, HEAD, turned_keys + j, (int)s.head_dim, dots);
      multiply_turned(upstream + e * VALUE, VALUE, turned_values + j, (int)s.value_dim, pulled);
#pragma unroll
      for (int r = 0; r < RQ; ++r) {
        floatW ds = weights_of(dots[r], pulled[r], (floatW)row_lse[e + r], (floatW)row_delta[e + r], &s).ds;
        if (!whole) {
          const long position = (first_entry + e + r) / group + shift;
          Span shown = keys_of(position, position, place.keys, &s);
          if (e + r >= entries) shown.last = 0;
          ds = select((floatW)HIDDEN, ds, SHOWN(begin + j, shown, place.first_row + (first_entry + e + r) / group));
        }
        vstoreW(ds, 0, gradients + (e + r) * KEYS + j);
      }
    }
    MEET;
    add_weighted(sums, gradients, keys, HEAD, count, whole);
    MEET;
  }
  for (int at = item; at < entries * (HEAD / W); at += GROUP) {
    const int e = at / (HEAD / W);
    const int d = at % (HEAD / W) * W;
    const long row = place.first_row + (first_entry + e) / group;
    const long head = kv_head * group + (first_entry + e) % group;
    SPREAD(dq, row * s.dq[0] + head * s.dq[1] + d * s.dq[2], s.dq[2], s.head_dim - d,
           vloadW(0, sums + e * HEAD + d));
  }
}

// Which of the W entries from `entry` on, `count` of which there are, see a key: all bits set.
static inline intW seen_by(long entry, int count, long key, long first_row, long shift, long keys,
                           const global uchar* mask, const AttentionSizes* s) {
  const long group = s->heads / s->kv_heads;
  int some[W];
  for (int i = 0; i < W; ++i) {
    const long row = (entry + i) / group;
    const Span shown = keys_of(row + shift, row + shift, keys, s);
    bool sees = i < count && key >= shown.first && key < shown.last;
    if (sees && s->has_mask != 0) sees = mask[(first_row + row) * s->mask[0] + key * s->mask[1]] != 0;
    some[i] = sees ? -1 : 0;
  }
  return vloadW(0, some);
}

// dk and dv: a work-group takes TILE keys of one kv head and streams over the entries that see one of them, KEYS at a
// time, which lie turned.
kernel IN_GROUP void attention_dkv(INPUT(dout), INPUT(q), INPUT(k), INPUT(v), INPUT(lse), INPUT(delta),
                                   INPUT(bounds_q), INPUT(bounds_k), INPUT(mask), OUTPUT(dk), OUTPUT(dv),
                                   local float* room, const AttentionSizes s) {
  local float* const weights = room;  // [TILE, KEYS]
  local float* const gradients = weights + TILE * KEYS;
  local float* const keys = gradients + TILE * KEYS;
  local float* const key_sums = keys + TILE * HEAD;
  local float* const values = key_sums + TILE * HEAD;
  local float* const value_sums = values + TILE * VALUE;
  local float* const queries = value_sums + TILE * VALUE;
  local float* const turned_queries = queries + KEYS * HEAD;
  local float* const upstream = turned_queries + KEYS * HEAD;
  local float* const turned_upstream = upstream + KEYS * VALUE;
  local float* const row_lse = turned_upstream + KEYS * VALUE;
  local float* const row_delta = row_lse + KEYS;
  const int item = get_local_id(0);
  const long kv_head = get_group_id(1);
  const long group = s.heads / s.kv_heads;
  const Place place = place_of(get_group_id(0), 1, TILE, AS(int, bounds_k), s.k_rows, &s);
  if (place.tile * TILE >= place.rows) return;
  const long all_keys = place.rows;  // of the sequence
  const long first = place.tile * TILE;
  const int count = (int)min((long)TILE, all_keys - first);
  long first_row = 0;
  long rows = 0;
  if (place.sequence >= 0) {
    first_row = AS(int, bounds_q)[place.sequence];
    rows = AS(int, bounds_q)[place.sequence + 1] - first_row;
  }
  const long shift = all_keys - rows;
  Span span = positions_of(first, first + count, rows, all_keys, &s);
  span.first = max(span.first - shift, 0L) * group;  // entries
  span.last = min(span.last - shift, rows) * group;
  const int read = rows > 0 ? count : 0;
  const Rows of_k = {kv_head * s.k[1], place.first_row + first, 1, {s.k[0], 0, s.k[2]}, read, TILE, (int)s.head_dim, HEAD};
  load_rows(k_T, AT(k), &of_k, keys, 0);
  const Rows of_v = {kv_head * s.v[1], place.first_row + first, 1, {s.v[0], 0, s.v[2]}, read, TILE, (int)s.value_dim,
                     VALUE};
  load_rows(v_T, AT(v), &of_v, values, 0);
  clear_sums(key_sums, HEAD);
  clear_sums(value_sums, VALUE);
  MEET;
  for (long begin = span.first; begin < span.last; begin += KEYS) {
    const int entries = (int)min((long)KEYS, rows * group - begin);
    const bool whole =
        count == TILE && entries == KEYS &&
        all_see(begin / group + shift, (begin + KEYS - 1) / group + shift, first, first + TILE, all_keys, &s);
    const long q_start = first_row * s.q[0] + kv_head * group * s.q[1];
    const Rows of_q = {q_start, begin, group, {s.q[0], s.q[1], s.q[2]}, entries, KEYS, (int)s.head_dim, HEAD};
    load_rows(q_T, AT(q), &of_q, queries, turned_queries);
    const long dout_start = first_row * s.dout[0] + kv_head * group * s.dout[1];
    const Rows of_dout = {dout_start, begin, group, {s.dout[0], s.dout[1], s.dout[2]}, entries, KEYS, (int)s.value_dim,
                          VALUE};
    load_rows(dout_T, AT(dout), &of_dout, upstream, turned_upstream);
    for (int e = item; e < KEYS; e += GROUP) {
      const long row = first_row + (begin + e) / group;
      const long head = kv_head * group + (begin + e) % group;
      row_lse[e] = e < entries ? AS(float, lse)[row * s.lse[0] + head * s.lse[1]] : 0.0f;
      row_delta[e] = e < entries ? AS(float, delta)[row * s.heads + head] : 0.0f;
    }
    MEET;
    for (int at = item; at < (TILE / RQ) * (KEYS / W); at += GROUP) {
      const int j = at / (KEYS / W) * RQ;
      const int e = at % (KEYS / W) * W;
      floatW dots[RQ], pulled[RQ];
      multiply_turned(keys + j * HEAD, HEAD, turned_queries + e, (int)s.head_dim, dots);
      multiply_turned(values + j * VALUE, VALUE, turned_upstream + e, (int)s.value_dim, pulled);
      const floatW all_lse = vloadW(0, row_lse + e);
      const floatW all_delta = vloadW(0, row_delta + e);
#pragma unroll
      for (int r = 0; r < RQ; ++r) {
        Weights both = weights_of(dots[r], pulled[r], all_lse, all_delta, &s);
        if (!whole) {
          const intW shown = seen_by(begin + e, entries - e, first + j + r, first_row, shift, all_keys, AT(mask), &s);
          both.p = select((floatW)HIDDEN, both.p, shown);
          both.ds = select((floatW)HIDDEN, both.ds, shown);
        }
        vstoreW(both.p, 0, weights + (j + r) * KEYS + e);
        vstoreW(both.ds, 0, gradients + (j + r) * KEYS + e);
      }
    }
    MEET;
    add_weighted(key_sums, gradients, queries, HEAD, entries, whole);
    add_weighted(value_sums, weights, upstream, VALUE, entries, whole);
    MEET;
  }
  for (int at = item; at < count * (HEAD / W); at += GROUP) {
    const int j = at / (HEAD / W);
    const int d = at % (HEAD / W) * W;
    SPREAD(dk, (place.first_row + first + j) * s.dk[0] + kv_head * s.dk[1] + d * s.dk[2], s.dk[2], s.head_dim - d,
           vloadW(0, key_sums + j * HEAD + d));
  }
  for (int at = item; at < count * (VALUE / W); at += GROUP) {
    const int j = at / (VALUE / W);
    const int d = at % (VALUE / W) * W;
    SPREAD(dv, (place.first_row + first + j) * s.dv[0] + kv_head * s.dv[1] + d * s.dv[2], s.dv[2], s.value_dim - d,
           vloadW(0, value_sums + j * VALUE + d));
  }
}
