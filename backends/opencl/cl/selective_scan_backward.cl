// selective_scan_backward. A work-item carries W columns of a head's state, and of its gradient G, through one
// sequence, as gated_delta_rule_backward.cl does. What sums over columns goes into partial[slot, row, head,
// 2 state_size + 3]: db, dc, ddt without e, e, and dout . x.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/sequences.clh"

typedef struct {
  long rows, heads, head_dim, groups, state_size, sequences;
  long x[3], dt[2], a, b[3], c[3], d, dout[3];
  long dx[3], ddt[2], da, db[3], dc[3], dd;
  long slots, first_chunk;
  int has_d;
} ScanSizes;

#define ADD_TO(at, value) \
  AS_OUT(float, partial)[at] = s.first_chunk > 0 ? AS(float, partial)[at] + (value) : (value)

kernel void selective_scan_columns(INPUT(dout), INPUT(x), INPUT(dt), INPUT(a), INPUT(b), INPUT(c), INPUT(d),
                                   INPUT(bounds), OUTPUT(dx), OUTPUT(partial), OUTPUT(kept_states),
                                   const ScanSizes s) {
  const long head = get_global_id(0) / s.slots;
  const long slot = get_global_id(0) % s.slots;
  const long column = (s.first_chunk + slot) * W;
  const long sequence = get_global_id(1);
  const long left = s.head_dim - column;
  if (head >= s.heads || left <= 0) return;
  if (sequence >= s.sequences) {  // rows outside of every sequence
    for (long row = s.sequences > 0 ? AS(int, bounds)[s.sequences] : 0; row < s.rows; ++row) {
      SPREAD(dx, row * s.dx[0] + head * s.dx[1] + column * s.dx[2], s.dx[2], left, (floatW)0.0f);
    }
    return;
  }
  const long begin = AS(int, bounds)[sequence];
  const long end = AS(int, bounds)[sequence + 1];
  const long group = head / (s.heads / s.groups);
  const float rate = AS(float, a)[head * s.a];
  const float skip = s.has_d != 0 ? GET(d, head * s.d) : 0.0f;
  const long places = s.rows / HELD + s.sequences + 1;
  const long first_place = ((slot * s.heads + head) * places + begin / HELD + sequence) * s.state_size * W;
#define STEP(row) AS(float, dt)[(row) * s.dt[0] + head * s.dt[1]]
#define VALUES(row) FETCH(x, (row) * s.x[0] + head * s.x[1] + column * s.x[2], s.x[2], left)
#define B_OF(row, i) GET(b, (row) * s.b[0] + group * s.b[1] + (i) * s.b[2])
#define C_OF(row, i) GET(c, (row) * s.c[0] + group * s.c[1] + (i) * s.c[2])
  floatW state[STATE_ROOM], gradient[STATE_ROOM], held[HELD][STATE_ROOM];
  for (int i = 0; i < (int)s.state_size; ++i) state[i] = gradient[i] = (floatW)0.0f;
  for (long row = begin; row < end; ++row) {
    if ((row - begin) % HELD == 0) {
      const long place = first_place + (row - begin) / HELD * s.state_size * W;
      for (int i = 0; i < (int)s.state_size; ++i) SPREAD_FLOATS(kept_states, place + i * W, 1, W, state[i]);
    }
    const float kept = exp(STEP(row) * rate);
    const floatW added = STEP(row) * VALUES(row);
    for (int i = 0; i < (int)s.state_size; ++i) state[i] = state[i] * kept + B_OF(row, i) * added;
  }
  for (long block = (end - begin + HELD - 1) / HELD - 1; block >= 0; --block) {
    const long first = begin + block * HELD;
    const int count = (int)min((long)HELD, end - first);
    const long place = first_place + block * s.state_size * W;
    for (int i = 0; i < (int)s.state_size; ++i) state[i] = FLOATS(kept_states, place + i * W, 1, W);
    for (int t = 0; t < count; ++t) {
      const float kept = exp(STEP(first + t) * rate);
      const floatW added = STEP(first + t) * VALUES(first + t);
      for (int i = 0; i < (int)s.state_size; ++i) {
        held[t][i] = state[i] * kept;
        state[i] = held[t][i] + B_OF(first + t, i) * added;
      }
    }
    for (int t = count - 1; t >= 0; --t) {
      const long row = first + t;
      const float step = STEP(row);
      const float kept = exp(step * rate);
      const floatW value = VALUES(row);
      const floatW added = step * value;
      const floatW upstream = FETCH(dout, row * s.dout[0] + head * s.dout[1] + column * s.dout[2], s.dout[2], left);
      const long to = ((slot * s.rows + row) * s.heads + head) * (2 * s.state_size + 3);
      floatW pulled = (floatW)0.0f;
      floatW faded = (floatW)0.0f;
      for (int i = 0; i < (int)s.state_size; ++i) {
        const float b_now = B_OF(row, i);
        const floatW g = gradient[i] + C_OF(row, i) * upstream;
        ADD_TO(to + i, step * sum_of(g * value));
        ADD_TO(to + s.state_size + i, sum_of((held[t][i] + b_now * added) * upstream));
        pulled += g * b_now;
        faded += g * held[t][i];
        gradient[i] = g * kept;
      }
      SPREAD(dx, row * s.dx[0] + head * s.dx[1] + column * s.dx[2], s.dx[2], left, step * pulled + skip * upstream);
      ADD_TO(to + 2 * s.state_size, sum_of(pulled * value));
      ADD_TO(to + 2 * s.state_size + 1, sum_of(faded));
      ADD_TO(to + 2 * s.state_size + 2, sum_of(upstream * value));
    }
  }
}

// The sums over slots, and for db and dc over the heads of a group. A work-item takes a row's group; those of no
// sequence get 0.
kernel void selective_scan_sums(INPUT(partial), INPUT(bounds), INPUT(a), OUTPUT(ddt), OUTPUT(db), OUTPUT(dc),
                                const ScanSizes s) {
  const long group = get_global_id(0) % s.groups;
  const long row = get_global_id(0) / s.groups;
  if (row >= s.rows) return;
  const bool inside = sequence_of(row, AS(int, bounds), s.sequences).number >= 0;
  const long heads = s.heads / s.groups;
  const long width = 2 * s.state_size + 3;
  for (int part = 0; part < 2; ++part) {
    for (long i = 0; i < s.state_size; i += W) {
      floatW sum = (floatW)0.0f;
      for (long slot = 0; slot < s.slots && inside; ++slot) {
        for (long head = group * heads; head < (group + 1) * heads; ++head) {
          const long from = ((slot * s.rows + row) * s.heads + head) * width + part * s.state_size + i;
          sum += FLOATS(partial, from, 1, s.state_size - i);
        }
      }
      if (part == 0) {
        SPREAD(db, row * s.db[0] + group * s.db[1] + i * s.db[2], s.db[2], s.state_size - i, sum);
      } else {
        SPREAD(dc, row * s.dc[0] + group * s.dc[1] + i * s.dc[2], s.dc[2], s.state_size - i, sum);
      }
    }
  }
  for (long head = group * heads; head < (group + 1) * heads; ++head) {
    float of_values = 0.0f;
    float of_decay = 0.0f;
    for (long slot = 0; slot < s.slots && inside; ++slot) {
      const long from = ((slot * s.rows + row) * s.heads + head) * width + 2 * s.state_size;
      of_values += AS(float, partial)[from];
      of_decay += AS(float, partial)[from + 1];
    }
    AS_OUT(float, ddt)[row * s.ddt[0] + head * s.ddt[1]] = of_values + AS(float, a)[head * s.a] * of_decay;
  }
}

// da and dd of a head, a work-group each: sums over the rows of sequences.
kernel IN_GROUP void selective_scan_heads(INPUT(partial), INPUT(bounds), INPUT(dt), OUTPUT(da), OUTPUT(dd),
                                          const ScanSizes s) {
  local float room[GROUP];
  const long head = get_group_id(0);
  const long width = 2 * s.state_size + 3;
  const long rows = s.sequences > 0 ? min((long)AS(int, bounds)[s.sequences], s.rows) : 0;
  float rates = 0.0f;
  float skips = 0.0f;
  for (long row = get_local_id(0); row < rows; row += GROUP) {
    float of_decay = 0.0f;
    for (long slot = 0; slot < s.slots; ++slot) {
      const long from = ((slot * s.rows + row) * s.heads + head) * width + 2 * s.state_size;
      of_decay += AS(float, partial)[from + 1];
      skips += AS(float, partial)[from + 2];
    }
    rates += AS(float, dt)[row * s.dt[0] + head * s.dt[1]] * of_decay;
  }
  rates = group_sum(rates, room);
  skips = group_sum(skips, room);
  if (get_local_id(0) != 0) return;
  if (HAS_da) PUT_OR_ADD(da, head * s.da, rates);
  if (HAS_dd) PUT_OR_ADD(dd, head * s.dd, skips);
}
