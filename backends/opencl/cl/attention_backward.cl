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

// Rows of queries, keys or values into local memory: as they lie, [count, pitch], and turned, [pitch, lanes].
#define STORE_TURNED(to, lanes, d, j, x)                                        \
  do {                                                                          \
    float turned_some[W];                                                       \
    vstoreW((x), 0, turned_some);                                               \
    for (int i = 0; i < W; ++i) (to)[((d) + i) * (lanes) + (j)] = turned_some[i]; \
  } while (0)

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
  for (int at = item; at < TILE * (HEAD / W); at += GROUP) {
    const int e = at / (HEAD / W);
    const int d = at % (HEAD / W) * W;
    const long row = place.first_row + (first_entry + e) / group;
    const long head = kv_head * group + (first_entry + e) % group;
    floatW x = (floatW)0.0f;
    if (e < entries) x = FETCH(q, row * s.q[0] + head * s.q[1] + d * s.q[2], s.q[2], s.head_dim - d);
    vstoreW(x, 0, queries + e * HEAD + d);
    vstoreW((floatW)0.0f, 0, sums + e * HEAD + d);
  }
  for (int at = item; at < TILE * (VALUE / W); at += GROUP) {
    const int e = at / (VALUE / W);
    const int d = at % (VALUE / W) * W;
    const long row = place.first_row + (first_entry + e) / group;
    const long head = kv_head * group + (first_entry + e) % group;
    floatW x = (floatW)0.0f;
    if (e < entries) x = FETCH(dout, row * s.dout[0] + head * s.dout[1] + d * s.dout[2], s.dout[2], s.value_dim - d);
    vstoreW(x, 0, upstream + e * VALUE + d);
  }
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
    for (int at = item; at < KEYS * (HEAD / W); at += GROUP) {
      const int j = at / (HEAD / W);
      const int d = at % (HEAD / W) * W;
      const long from = (place.first_key + begin + j) * s.k[0] + kv_head * s.k[1];
      floatW x = (floatW)0.0f;
      if (j < count) x = FETCH(k, from + d * s.k[2], s.k[2], s.head_dim - d);
      vstoreW(x, 0, keys + j * HEAD + d);
      STORE_TURNED(turned_keys, KEYS, d, j, x);
    }
    for (int at = item; at < KEYS * (VALUE / W); at += GROUP) {
      const int j = at / (VALUE / W);
      const int d = at % (VALUE / W) * W;
      const long from = (place.first_key + begin + j) * s.v[0] + kv_head * s.v[1];
      floatW x = (floatW)0.0f;
      if (j < count) x = FETCH(v, from + d * s.v[2], s.v[2], s.value_dim - d);
      STORE_TURNED(turned_values, KEYS, d, j, x);
    }
    MEET;
    for (int at = item; at < (TILE / RQ) * (KEYS / W); at += GROUP) {
      const int e = at / (KEYS / W) * RQ;
      const int j = at % (KEYS / W) * W;
      floatW dots[RQ], pulled[RQ];
#pragma unroll
      for (int r = 0; r < RQ; ++r) dots[r] = pulled[r] = (floatW)0.0f;
      for (int d = 0; d < (int)s.head_dim; ++d) {
        const floatW key = vloadW(0, turned_keys + d * KEYS + j);
#pragma unroll
        for (int r = 0; r < RQ; ++r) dots[r] += queries[(e + r) * HEAD + d] * key;
      }
      for (int d = 0; d < (int)s.value_dim; ++d) {
        const floatW value = vloadW(0, turned_values + d * KEYS + j);
#pragma unroll
        for (int r = 0; r < RQ; ++r) pulled[r] += upstream[(e + r) * VALUE + d] * value;
      }
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
    for (int at = item; at < (TILE / RQ) * (HEAD / W); at += GROUP) {
      const int e = at / (HEAD / W) * RQ;
      const int d = at % (HEAD / W) * W;
      floatW sum[RQ];
#pragma unroll
      for (int r = 0; r < RQ; ++r) sum[r] = vloadW(0, sums + (e + r) * HEAD + d);
      for (int j = 0; j < count; ++j) {
        const floatW key = vloadW(0, keys + j * HEAD + d);
#pragma unroll
        for (int r = 0; r < RQ; ++r) {
          const float ds = gradients[(e + r) * KEYS + j];
          if (whole || !is_hidden(ds)) sum[r] += ds * key;
        }
      }
#pragma unroll
      for (int r = 0; r < RQ; ++r) vstoreW(sum[r], 0, sums + (e + r) * HEAD + d);
    }
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
  for (int at = item; at < TILE * (HEAD / W); at += GROUP) {
    const int j = at / (HEAD / W);
    const int d = at % (HEAD / W) * W;
    const long from = (place.first_row + first + j) * s.k[0] + kv_head * s.k[1];
    floatW x = (floatW)0.0f;
    if (j < count && rows > 0) x = FETCH(k, from + d * s.k[2], s.k[2], s.head_dim - d);
    vstoreW(x, 0, keys + j * HEAD + d);
    vstoreW((floatW)0.0f, 0, key_sums + j * HEAD + d);
  }
  for (int at = item; at < TILE * (VALUE / W); at += GROUP) {
    const int j = at / (VALUE / W);
    const int d = at % (VALUE / W) * W;
    const long from = (place.first_row + first + j) * s.v[0] + kv_head * s.v[1];
    floatW x = (floatW)0.0f;
    if (j < count && rows > 0) x = FETCH(v, from + d * s.v[2], s.v[2], s.value_dim - d);
    vstoreW(x, 0, values + j * VALUE + d);
    vstoreW((floatW)0.0f, 0, value_sums + j * VALUE + d);
  }
  MEET;
  for (long begin = span.first; begin < span.last; begin += KEYS) {
    const int entries = (int)min((long)KEYS, rows * group - begin);
    const bool whole =
        count == TILE && entries == KEYS &&
        all_see(begin / group + shift, (begin + KEYS - 1) / group + shift, first, first + TILE, all_keys, &s);
    for (int at = item; at < KEYS * (HEAD / W); at += GROUP) {
      const int e = at / (HEAD / W);
      const int d = at % (HEAD / W) * W;
      const long row = first_row + (begin + e) / group;
      const long head = kv_head * group + (begin + e) % group;
      floatW x = (floatW)0.0f;
      if (e < entries) x = FETCH(q, row * s.q[0] + head * s.q[1] + d * s.q[2], s.q[2], s.head_dim - d);
      vstoreW(x, 0, queries + e * HEAD + d);
      STORE_TURNED(turned_queries, KEYS, d, e, x);
    }
    for (int at = item; at < KEYS * (VALUE / W); at += GROUP) {
      const int e = at / (VALUE / W);
      const int d = at % (VALUE / W) * W;
      const long row = first_row + (begin + e) / group;
      const long head = kv_head * group + (begin + e) % group;
      floatW x = (floatW)0.0f;
      if (e < entries) x = FETCH(dout, row * s.dout[0] + head * s.dout[1] + d * s.dout[2], s.dout[2], s.value_dim - d);
      vstoreW(x, 0, upstream + e * VALUE + d);
      STORE_TURNED(turned_upstream, KEYS, d, e, x);
    }
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
#pragma unroll
      for (int r = 0; r < RQ; ++r) dots[r] = pulled[r] = (floatW)0.0f;
      for (int d = 0; d < (int)s.head_dim; ++d) {
        const floatW query = vloadW(0, turned_queries + d * KEYS + e);
#pragma unroll
        for (int r = 0; r < RQ; ++r) dots[r] += keys[(j + r) * HEAD + d] * query;
      }
      for (int d = 0; d < (int)s.value_dim; ++d) {
        const floatW pull = vloadW(0, turned_upstream + d * KEYS + e);
#pragma unroll
        for (int r = 0; r < RQ; ++r) pulled[r] += values[(j + r) * VALUE + d] * pull;
      }
      const floatW all_lse = vloadW(0, row_lse + e);
      const floatW all_delta = vloadW(0, row_delta + e);
#pragma unroll
      for (int r = 0; r < RQ; ++r) {
        Weights both = weights_of(dots[r], pulled[r], all_lse, all_delta, &s);
        if (!whole) {
          int some[W];
          for (int i = 0; i < W; ++i) {
            const long row = (begin + e + i) / group;
            const Span shown = keys_of(row + shift, row + shift, all_keys, &s);
            bool sees = e + i < entries && first + j + r >= shown.first && first + j + r < shown.last;
            if (sees && s.has_mask != 0) sees = AT(mask)[(first_row + row) * s.mask[0] + (first + j + r) * s.mask[1]] != 0;
            some[i] = sees ? -1 : 0;
          }
          const intW shown = vloadW(0, some);
          both.p = select((floatW)HIDDEN, both.p, shown);
          both.ds = select((floatW)HIDDEN, both.ds, shown);
        }
        vstoreW(both.p, 0, weights + (j + r) * KEYS + e);
        vstoreW(both.ds, 0, gradients + (j + r) * KEYS + e);
      }
    }
    MEET;
    for (int at = item; at < (TILE / RQ) * (HEAD / W); at += GROUP) {
      const int j = at / (HEAD / W) * RQ;
      const int d = at % (HEAD / W) * W;
      floatW sum[RQ];
#pragma unroll
      for (int r = 0; r < RQ; ++r) sum[r] = vloadW(0, key_sums + (j + r) * HEAD + d);
      for (int e = 0; e < entries; ++e) {
        const floatW query = vloadW(0, queries + e * HEAD + d);
#pragma unroll
        for (int r = 0; r < RQ; ++r) {
          const float ds = gradients[(j + r) * KEYS + e];
          if (whole || !is_hidden(ds)) sum[r] += ds * query;
        }
      }
#pragma unroll
      for (int r = 0; r < RQ; ++r) vstoreW(sum[r], 0, key_sums + (j + r) * HEAD + d);
    }
    for (int at = item; at < (TILE / RQ) * (VALUE / W); at += GROUP) {
      const int j = at / (VALUE / W) * RQ;
      const int d = at % (VALUE / W) * W;
      floatW sum[RQ];
#pragma unroll
      for (int r = 0; r < RQ; ++r) sum[r] = vloadW(0, value_sums + (j + r) * VALUE + d);
      for (int e = 0; e < entries; ++e) {
        const floatW pull = vloadW(0, upstream + e * VALUE + d);
#pragma unroll
        for (int r = 0; r < RQ; ++r) {
          const float p = weights[(j + r) * KEYS + e];
          if (whole || !is_hidden(p)) sum[r] += p * pull;
        }
      }
#pragma unroll
      for (int r = 0; r < RQ; ++r) vstoreW(sum[r], 0, value_sums + (j + r) * VALUE + d);
    }
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
