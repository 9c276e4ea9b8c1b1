// causal_conv1d and its backward. A work-item takes W channels of ROWS rows.
#include "backends/opencl/cl/vectors.clh"
#include "backends/opencl/cl/sequences.clh"
#include "backends/opencl/cl/column_sum.clh"

typedef struct {
  long rows, channels, taps, sequences;
  long x[2], weight[2], bias, state[3], y[2];
  int has_bias, has_state;
} ConvSizes;

#define KEPT 8  // taps whose weights stay in registers
#define WEIGHT_AT(c, j, left) FETCH(weight, (c) * s.weight[0] + (j) * s.weight[1], s.weight[0], left)

kernel void causal_conv1d(INPUT(x), INPUT(weight), INPUT(bias), INPUT(bounds), INPUT(kv_lens), INPUT(seats),
                          INPUT(state), OUTPUT(y), const ConvSizes s) {
  const long c = (long)get_global_id(0) * W;
  const long left = s.channels - c;
  if (left <= 0) return;
  floatW kept[KEPT];
  for (int j = 0; j < KEPT; ++j) kept[j] = j <= s.taps ? WEIGHT_AT(c, j, left) : (floatW)0.0f;
  const floatW first = s.has_bias != 0 ? FETCH(bias, c * s.bias, s.bias, left) : (floatW)0.0f;
  const long end = min(((long)get_global_id(1) + 1) * ROWS, s.rows);
  for (long row = (long)get_global_id(1) * ROWS; row < end; ++row) {
    const Sequence own = sequence_of(row, AS(int, bounds), s.sequences);
    floatW sum = first;
    long seat = -1;
    if (own.number >= 0 && s.has_state != 0 && AS(int, kv_lens)[own.number] > own.end - own.begin) {
      seat = AS(int, seats)[own.number];
    }
    for (long j = 0; j <= s.taps && own.number >= 0; ++j) {
      const long at = row - s.taps + j;
      const floatW factor = j < KEPT ? kept[j] : WEIGHT_AT(c, j, left);
      if (at >= own.begin) {
        sum += factor * FETCH(x, at * s.x[0] + c * s.x[1], s.x[1], left);
      } else if (seat >= 0) {
        const long from = seat * s.state[0] + (at - own.begin + s.taps) * s.state[1] + c * s.state[2];
        sum += factor * FETCH(state, from, s.state[2], left);
      }
    }
    SPREAD(y, row * s.y[0] + c * s.y[1], s.y[1], left, own.number >= 0 ? sum : (floatW)0.0f);
  }
}

// Behind it: the state of each sequence with rows becomes its last rows. What moves lies behind where it goes.
kernel void causal_conv1d_state(INPUT(x), INPUT(bounds), INPUT(kv_lens), INPUT(seats), OUTPUT(state),
                                const ConvSizes s) {
  const long c = (long)get_global_id(0) * W;
  const long sequence = get_global_id(1);
  const long left = s.channels - c;
  if (left <= 0 || sequence >= s.sequences) return;
  const long begin = AS(int, bounds)[sequence];
  const long end = AS(int, bounds)[sequence + 1];
  if (begin == end) return;
  const bool goes_on = AS(int, kv_lens)[sequence] > end - begin;
  const long seat = AS(int, seats)[sequence];
  for (long j = 0; j < s.taps; ++j) {
    const long row = end - s.taps + j;
    floatW value = (floatW)0.0f;
    if (row >= begin) {
      value = FETCH(x, row * s.x[0] + c * s.x[1], s.x[1], left);
    } else if (goes_on) {
      const long from = seat * s.state[0] + (end - begin + j) * s.state[1] + c * s.state[2];
      value = FETCH(state, from, s.state[2], left);
    }
    SPREAD(state, seat * s.state[0] + j * s.state[1] + c * s.state[2], s.state[2], left, value);
  }
}

// x: dy; y: dx.
kernel void causal_conv1d_dx(INPUT(x), INPUT(weight), INPUT(bounds), OUTPUT(y), const ConvSizes s) {
  const long c = (long)get_global_id(0) * W;
  const long left = s.channels - c;
  if (left <= 0) return;
  floatW kept[KEPT];
  for (int j = 0; j < KEPT; ++j) kept[j] = j <= s.taps ? WEIGHT_AT(c, j, left) : (floatW)0.0f;
  const long end = min(((long)get_global_id(1) + 1) * ROWS, s.rows);
  for (long row = (long)get_global_id(1) * ROWS; row < end; ++row) {
    const Sequence own = sequence_of(row, AS(int, bounds), s.sequences);
    floatW sum = (floatW)0.0f;
    for (long j = 0; j <= s.taps && own.number >= 0; ++j) {
      const long at = row + s.taps - j;
      const floatW factor = j < KEPT ? kept[j] : WEIGHT_AT(c, j, left);
      if (at < own.end) sum += factor * FETCH(x, at * s.x[0] + c * s.x[1], s.x[1], left);
    }
    SPREAD(y, row * s.y[0] + c * s.y[1], s.y[1], left, sum);
  }
}

// partial[j, block, channels]: sums over the block's rows of dy x of j; behind the last j those of dy. y: dy.
kernel void causal_conv1d_sums(INPUT(y), INPUT(x), INPUT(bounds), OUTPUT(partial), const ConvSizes s) {
  const long c = (long)get_global_id(0) * W;
  const long block = get_global_id(1);
  const long j = get_global_id(2);
  const long left = s.channels - c;
  if (left <= 0) return;
  floatW sum = (floatW)0.0f;
  const long end = min((block + 1) * ROWS, s.rows);
  for (long row = block * ROWS; row < end; ++row) {
    const Sequence own = sequence_of(row, AS(int, bounds), s.sequences);
    const long at = row - s.taps + j;
    if (own.number < 0 || (j <= s.taps && at < own.begin)) continue;
    const floatW upstream = FETCH(y, row * s.y[0] + c * s.y[1], s.y[1], left);
    sum += j <= s.taps ? upstream * FETCH(x, at * s.x[0] + c * s.x[1], s.x[1], left) : upstream;
  }
  SPREAD_FLOATS(partial, (j * ((s.rows + ROWS - 1) / ROWS) + block) * s.channels + c, 1, left, sum);
}
