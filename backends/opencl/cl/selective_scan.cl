// selective_scan. A work-item carries W columns of a head's state through one sequence, as gated_delta_rule.cl does.
// STATE_ROOM is state_size up to a power of two.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/sequences.clh"

typedef struct {
  long rows, heads, head_dim, groups, state_size, sequences;
  long x[3], dt[2], a, b[3], c[3], d, state[4], out[3];
  int has_d, has_state;
} ScanSizes;

kernel void selective_scan(INPUT(x), INPUT(dt), INPUT(a), INPUT(b), INPUT(c), INPUT(d), INPUT(bounds), INPUT(kv_lens),
                           INPUT(seats), OUTPUT(state), OUTPUT(out), const ScanSizes s) {
  const long chunks = (s.head_dim + W - 1) / W;
  const long head = get_global_id(0) / chunks;
  const long column = get_global_id(0) % chunks * W;
  const long sequence = get_global_id(1);
  if (head >= s.heads) return;
  const long left = s.head_dim - column;
  if (sequence >= s.sequences) {  // rows outside of every sequence
    for (long row = s.sequences > 0 ? AS(int, bounds)[s.sequences] : 0; row < s.rows; ++row) {
      SPREAD(out, row * s.out[0] + head * s.out[1] + column * s.out[2], s.out[2], left, (floatW)0.0f);
    }
    return;
  }
  const long begin = AS(int, bounds)[sequence];
  const long end = AS(int, bounds)[sequence + 1];
  if (begin == end) return;
  const long group = head / (s.heads / s.groups);
  const long seat = s.has_state != 0 ? AS(int, seats)[sequence] : 0;
  const bool goes_on = s.has_state != 0 && AS(int, kv_lens)[sequence] > end - begin;
  const long at_state = seat * s.state[0] + head * s.state[1] + column * s.state[3];
  const float rate = AS(float, a)[head * s.a];
  const float skip = s.has_d != 0 ? GET(d, head * s.d) : 0.0f;
  floatW rows_of_state[STATE_ROOM];
  for (int i = 0; i < (int)s.state_size; ++i) {
    rows_of_state[i] = goes_on ? fetch(F32, AT(state), at_state + i * s.state[2], s.state[3], left) : (floatW)0.0f;
  }
  for (long row = begin; row < end; ++row) {
    const float step = AS(float, dt)[row * s.dt[0] + head * s.dt[1]];
    const float kept = exp(step * rate);
    const floatW value = FETCH(x, row * s.x[0] + head * s.x[1] + column * s.x[2], s.x[2], left);
    const floatW added = step * value;
    const long at_b = row * s.b[0] + group * s.b[1];
    const long at_c = row * s.c[0] + group * s.c[1];
    floatW sum = (floatW)0.0f;
    for (int i = 0; i < (int)s.state_size; ++i) {
      const floatW now = rows_of_state[i] * kept + GET(b, at_b + i * s.b[2]) * added;
      rows_of_state[i] = now;
      sum += now * GET(c, at_c + i * s.c[2]);
    }
    SPREAD(out, row * s.out[0] + head * s.out[1] + column * s.out[2], s.out[2], left, sum + skip * value);
  }
  if (s.has_state == 0) return;
  for (int i = 0; i < (int)s.state_size; ++i) {
    SPREAD_FLOATS(state, at_state + i * s.state[2], s.state[3], left, rows_of_state[i]);
  }
}
