// gated_delta_rule. A work-item carries W columns of a head's state through one sequence: columns have nothing to do
// with each other. S lies in private memory; KEY_ROOM is key_dim up to a power of two.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/sequences.clh"

typedef struct {
  long rows, k_heads, heads, key_dim, value_dim, sequences;
  long q[3], k[3], v[3], decay[2], beta[2], state[4], out[3];
  float scale;
  int has_state;
} RuleSizes;

kernel void gated_delta_rule(INPUT(q), INPUT(k), INPUT(v), INPUT(decay), INPUT(beta), INPUT(bounds), INPUT(kv_lens),
                             INPUT(seats), OUTPUT(state), OUTPUT(out), const RuleSizes s) {
  const long chunks = (s.value_dim + W - 1) / W;
  const long head = get_global_id(0) / chunks;
  const long c = get_global_id(0) % chunks * W;
  const long sequence = get_global_id(1);
  if (head >= s.heads) return;
  const long left = s.value_dim - c;
  if (sequence >= s.sequences) {  // rows outside of every sequence
    for (long row = s.sequences > 0 ? AS(int, bounds)[s.sequences] : 0; row < s.rows; ++row) {
      SPREAD(out, row * s.out[0] + head * s.out[1] + c * s.out[2], s.out[2], left, (floatW)0.0f);
    }
    return;
  }
  const long begin = AS(int, bounds)[sequence];
  const long end = AS(int, bounds)[sequence + 1];
  if (begin == end) return;
  const long k_head = head / (s.heads / s.k_heads);
  const long seat = s.has_state != 0 ? AS(int, seats)[sequence] : 0;
  const bool goes_on = s.has_state != 0 && AS(int, kv_lens)[sequence] > end - begin;
  const long at_state = seat * s.state[0] + head * s.state[1] + c * s.state[3];
  floatW rows_of_state[KEY_ROOM];
  for (int i = 0; i < (int)s.key_dim; ++i) {
    rows_of_state[i] = goes_on ? fetch(F32, AT(state), at_state + i * s.state[2], s.state[3], left) : (floatW)0.0f;
  }
  for (long row = begin; row < end; ++row) {
    const float kept = exp(AS(float, decay)[row * s.decay[0] + head * s.decay[1]]);
    const float rate = AS(float, beta)[row * s.beta[0] + head * s.beta[1]];
    const long at_k = row * s.k[0] + k_head * s.k[1];
    const long at_q = row * s.q[0] + k_head * s.q[1];
    floatW predicted = (floatW)0.0f;
    for (int i = 0; i < (int)s.key_dim; ++i) {
      const floatW now = rows_of_state[i] * kept;
      rows_of_state[i] = now;
      predicted += now * GET(k, at_k + i * s.k[2]);
    }
    const floatW delta = rate * (FETCH(v, row * s.v[0] + head * s.v[1] + c * s.v[2], s.v[2], left) - predicted);
    floatW sum = (floatW)0.0f;
    for (int i = 0; i < (int)s.key_dim; ++i) {
      const floatW now = rows_of_state[i] + GET(k, at_k + i * s.k[2]) * delta;
      rows_of_state[i] = now;
      sum += now * GET(q, at_q + i * s.q[2]);
    }
    SPREAD(out, row * s.out[0] + head * s.out[1] + c * s.out[2], s.out[2], left, sum * s.scale);
  }
  if (s.has_state == 0) return;
  for (int i = 0; i < (int)s.key_dim; ++i) {
    SPREAD_FLOATS(state, at_state + i * s.state[2], s.state[3], left, rows_of_state[i]);
  }
}
