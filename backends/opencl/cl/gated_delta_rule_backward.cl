// gated_delta_rule_backward. A work-item carries W columns of a head's state, and of its gradient D, through one
// sequence. The state is kept before each HELD rows on the way there, and computed again from there on the way back.
// What sums over columns goes into partial[slot, row, head, 2 key_dim + 2]: dq, dk, ddecay, dbeta; chunk c of columns
// adds to slot c % slots, and a launch has a chunk for each slot.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/sequences.clh"

typedef struct {
  long rows, k_heads, heads, key_dim, value_dim, sequences;
  long q[3], k[3], v[3], decay[2], beta[2], dout[3];
  long dq[3], dk[3], dv[3], ddecay[2], dbeta[2];
  long slots, first_chunk;
  float scale;
} RuleSizes;

// S becomes exp(decay) S, which `held` gets, and then that of after the row; gives u.
static inline floatW advance(floatW* state, floatW* held, float kept, float rate, floatW value,
                             const global uchar* k, long at_k, const RuleSizes* s) {
  floatW predicted = (floatW)0.0f;
  for (int i = 0; i < (int)s->key_dim; ++i) {
    held[i] = state[i] * kept;
    predicted += held[i] * load_float(k_T, k, at_k + i * s->k[2]);
  }
  const floatW u = value - predicted;
  for (int i = 0; i < (int)s->key_dim; ++i) {
    state[i] = held[i] + load_float(k_T, k, at_k + i * s->k[2]) * (rate * u);
  }
  return u;
}

kernel void gated_delta_rule_columns(INPUT(dout), INPUT(q), INPUT(k), INPUT(v), INPUT(decay), INPUT(beta),
                                     INPUT(bounds), OUTPUT(dv), OUTPUT(partial), OUTPUT(kept_states),
                                     const RuleSizes s) {
  const long head = get_global_id(0) / s.slots;
  const long slot = get_global_id(0) % s.slots;
  const long c = (s.first_chunk + slot) * W;
  const long sequence = get_global_id(1);
  const long left = s.value_dim - c;
  if (head >= s.heads || left <= 0) return;
  if (sequence >= s.sequences) {  // rows outside of every sequence
    for (long row = s.sequences > 0 ? AS(int, bounds)[s.sequences] : 0; row < s.rows; ++row) {
      SPREAD(dv, row * s.dv[0] + head * s.dv[1] + c * s.dv[2], s.dv[2], left, (floatW)0.0f);
    }
    return;
  }
  const long begin = AS(int, bounds)[sequence];
  const long end = AS(int, bounds)[sequence + 1];
  const long k_head = head / (s.heads / s.k_heads);
  // Places for states: one for each HELD rows, and one more for each sequence, as it may begin within these.
  const long places = s.rows / HELD + s.sequences + 1;
  const long first_place = ((slot * s.heads + head) * places + begin / HELD + sequence) * s.key_dim * W;
#define KEPT_EXP(row) exp(AS(float, decay)[(row) * s.decay[0] + head * s.decay[1]])
#define RATE(row) AS(float, beta)[(row) * s.beta[0] + head * s.beta[1]]
#define VALUES(row) FETCH(v, (row) * s.v[0] + head * s.v[1] + c * s.v[2], s.v[2], left)
#define AT_K(row) ((row) * s.k[0] + k_head * s.k[1])
  floatW state[KEY_ROOM], gradient[KEY_ROOM], held[HELD][KEY_ROOM], u[HELD];
  for (int i = 0; i < (int)s.key_dim; ++i) state[i] = gradient[i] = (floatW)0.0f;
  for (long row = begin; row < end; ++row) {
    if ((row - begin) % HELD == 0) {
      const long place = first_place + (row - begin) / HELD * s.key_dim * W;
      for (int i = 0; i < (int)s.key_dim; ++i) SPREAD_FLOATS(kept_states, place + i * W, 1, W, state[i]);
    }
    advance(state, held[0], KEPT_EXP(row), RATE(row), VALUES(row), AT(k), AT_K(row), &s);
  }
  for (long block = (end - begin + HELD - 1) / HELD - 1; block >= 0; --block) {
    const long first = begin + block * HELD;
    const int count = (int)min((long)HELD, end - first);
    const long place = first_place + block * s.key_dim * W;
    for (int i = 0; i < (int)s.key_dim; ++i) state[i] = FLOATS(kept_states, place + i * W, 1, W);
    for (int t = 0; t < count; ++t) {
      u[t] = advance(state, held[t], KEPT_EXP(first + t), RATE(first + t), VALUES(first + t), AT(k), AT_K(first + t), &s);
    }
    for (int t = count - 1; t >= 0; --t) {
      const long row = first + t;
      const float rate = RATE(row);
      const float kept = KEPT_EXP(row);
      const floatW upstream = FETCH(dout, row * s.dout[0] + head * s.dout[1] + c * s.dout[2], s.dout[2], left);
      const long at_q = row * s.q[0] + k_head * s.q[1];
      const long to = ((slot * s.rows + row) * s.heads + head) * (2 * s.key_dim + 2);
      const floatW delta = rate * u[t];
      floatW pulled = (floatW)0.0f;
      for (int i = 0; i < (int)s.key_dim; ++i) {
        const float key = GET(k, AT_K(row) + i * s.k[2]);
        const floatW d = gradient[i] + (s.scale * GET(q, at_q + i * s.q[2])) * upstream;
        const float dq = s.scale * sum_of((held[t][i] + key * delta) * upstream);
        gradient[i] = d;
        pulled += d * key;
        AS_OUT(float, partial)[to + i] = s.first_chunk > 0 ? AS(float, partial)[to + i] + dq : dq;
      }
      const floatW e = rate * pulled;
      SPREAD(dv, row * s.dv[0] + head * s.dv[1] + c * s.dv[2], s.dv[2], left, e);
      floatW of_decay = (floatW)0.0f;
      for (int i = 0; i < (int)s.key_dim; ++i) {
        const float key = GET(k, AT_K(row) + i * s.k[2]);
        const float dk = sum_of(gradient[i] * delta - held[t][i] * e);
        const floatW d = gradient[i] - key * e;
        const long at = to + s.key_dim + i;
        of_decay += d * held[t][i];
        gradient[i] = d * kept;
        AS_OUT(float, partial)[at] = s.first_chunk > 0 ? AS(float, partial)[at] + dk : dk;
      }
      const long at = to + 2 * s.key_dim;
      const float ddecay = sum_of(of_decay);
      const float dbeta = sum_of(u[t] * pulled);
      AS_OUT(float, partial)[at] = s.first_chunk > 0 ? AS(float, partial)[at] + ddecay : ddecay;
      AS_OUT(float, partial)[at + 1] = s.first_chunk > 0 ? AS(float, partial)[at + 1] + dbeta : dbeta;
    }
  }
}

// The sums over slots, and for dq and dk over the heads that read a head of keys. A work-item takes a row's head of
// keys; those of no sequence get 0.
kernel void gated_delta_rule_sums(INPUT(partial), INPUT(bounds), OUTPUT(dq), OUTPUT(dk), OUTPUT(ddecay), OUTPUT(dbeta),
                                  const RuleSizes s) {
  const long k_head = get_global_id(0) % s.k_heads;
  const long row = get_global_id(0) / s.k_heads;
  if (row >= s.rows) return;
  const bool inside = sequence_of(row, AS(int, bounds), s.sequences).number >= 0;
  const long group = s.heads / s.k_heads;
  const long width = 2 * s.key_dim + 2;
  for (int part = 0; part < 2; ++part) {
    for (long i = 0; i < s.key_dim; i += W) {
      floatW sum = (floatW)0.0f;
      for (long slot = 0; slot < s.slots && inside; ++slot) {
        for (long head = k_head * group; head < (k_head + 1) * group; ++head) {
          const long from = ((slot * s.rows + row) * s.heads + head) * width + part * s.key_dim + i;
          sum += FLOATS(partial, from, 1, s.key_dim - i);
        }
      }
      if (part == 0) {
        SPREAD(dq, row * s.dq[0] + k_head * s.dq[1] + i * s.dq[2], s.dq[2], s.key_dim - i, sum);
      } else {
        SPREAD(dk, row * s.dk[0] + k_head * s.dk[1] + i * s.dk[2], s.dk[2], s.key_dim - i, sum);
      }
    }
  }
  for (long head = k_head * group; head < (k_head + 1) * group; ++head) {
    float of_decay = 0.0f;
    float of_beta = 0.0f;
    for (long slot = 0; slot < s.slots && inside; ++slot) {
      const long from = ((slot * s.rows + row) * s.heads + head) * width + 2 * s.key_dim;
      of_decay += AS(float, partial)[from];
      of_beta += AS(float, partial)[from + 1];
    }
    AS_OUT(float, ddecay)[row * s.ddecay[0] + head * s.ddecay[1]] = of_decay;
    AS_OUT(float, dbeta)[row * s.dbeta[0] + head * s.dbeta[1]] = of_beta;
  }
}
