// causal_conv1d and its backward. A thread has W channels of some rows.
#include "backends/cuda/cu/sequences.cuh"
#include "backends/cuda/cu/vectors.cuh"

struct ConvSizes {
  long rows, channels, taps, sequences;
  long rows_of_thread;
  long x[2], weight[2], bias, state[3], y[2];
};

CONSTANT int KEPT = 4;    // columns of the weight that stay in registers
CONSTANT int SUMMED = 4;  // columns of dweight that a thread sums at once

DEVICE Floats weight_at(const Tensor& weight, long c, long j, long left, const ConvSizes& s) {
  return fetch(weight, c * s.weight[0] + j * s.weight[1], s.weight[0], left);
}
DEVICE void keep_weight(Floats (&kept)[KEPT], const Tensor& weight, long c, long left, const ConvSizes& s) {
  UNROLL for (int j = 0; j < KEPT; ++j) kept[j] = j <= s.taps ? weight_at(weight, c, j, left, s) : floats_of(0.0f);
}
// Calls step(j, factor) for each column of the weight.
template <typename Step>
DEVICE void for_each_tap(const Floats (&kept)[KEPT], const Tensor& weight, long c, long left, const ConvSizes& s,
                         Step&& step) {
  UNROLL for (int j = 0; j < KEPT; ++j) {
    if (j <= s.taps) step(static_cast<long>(j), kept[j]);
  }
  for (long j = KEPT; j <= s.taps; ++j) step(j, weight_at(weight, c, j, left, s));
}

KERNEL(causal_conv1d)
(Tensor x, Tensor weight, Tensor bias, const int* bounds, const int* kv_lens, const int* seats, Tensor state, Tensor y,
 ConvSizes s) {
  const long c = (static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x) * W, left = s.channels - c;
  if (left <= 0) return;
  Floats kept[KEPT];
  keep_weight(kept, weight, c, left, s);
  const Floats first = bias.here() ? fetch(bias, c * s.bias, s.bias, left) : floats_of(0.0f);
  const long begin = blockIdx.y * s.rows_of_thread;
  const long end = begin + s.rows_of_thread < s.rows ? begin + s.rows_of_thread : s.rows;
  Sequence own = {-1, 0, 0};
  for (long row = begin; row < end; ++row) {
    own = next_sequence_of(own, row, bounds, s.sequences);
    const bool goes_on = own.number >= 0 && state.here() && kv_lens[own.number] > own.end - own.begin;
    const long seat = goes_on ? seats[own.number] : -1;
    Floats sum = own.number >= 0 ? first : floats_of(0.0f);
    for_each_tap(kept, weight, c, left, s, [&](long j, const Floats& factor) {
      if (own.number < 0) return;
      const long at = row - s.taps + j;
      if (at >= own.begin) {
        sum = sum + factor * fetch(x, at * s.x[0] + c * s.x[1], s.x[1], left);
      } else if (seat >= 0) {
        const long from = seat * s.state[0] + (at - own.begin + s.taps) * s.state[1] + c * s.state[2];
        sum = sum + factor * fetch(state, from, s.state[2], left);
      }
    });
    spread(y, row * s.y[0] + c * s.y[1], s.y[1], left, sum);
  }
}

// Behind it: the state of each sequence with rows becomes its last rows. What moves lies behind where it goes.
KERNEL(causal_conv1d_state)
(Tensor x, const int* bounds, const int* kv_lens, const int* seats, Tensor state, ConvSizes s) {
  const long c = (static_cast<long>(blockIdx.y) * blockDim.x + threadIdx.x) * W, left = s.channels - c;
  const long sequence = blockIdx.x;
  if (left <= 0) return;
  const long begin = bounds[sequence], end = bounds[sequence + 1];
  if (begin == end) return;
  const bool goes_on = kv_lens[sequence] > end - begin;
  const long own = seats[sequence] * s.state[0] + c * s.state[2];
  for (long j = 0; j < s.taps; ++j) {
    const long row = end - s.taps + j;
    Floats value = floats_of(0.0f);
    if (row >= begin) {
      value = fetch(x, row * s.x[0] + c * s.x[1], s.x[1], left);
    } else if (goes_on) {
      value = fetch(state, own + (end - begin + j) * s.state[1], s.state[2], left);
    }
    spread(state, own + j * s.state[1], s.state[2], left, value);
  }
}

// x: dy; y: dx.
KERNEL(causal_conv1d_dx)(Tensor x, Tensor weight, const int* bounds, Tensor y, ConvSizes s) {
  const long c = (static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x) * W, left = s.channels - c;
  if (left <= 0) return;
  Floats kept[KEPT];
  keep_weight(kept, weight, c, left, s);
  const long begin = blockIdx.y * s.rows_of_thread;
  const long end = begin + s.rows_of_thread < s.rows ? begin + s.rows_of_thread : s.rows;
  Sequence own = {-1, 0, 0};
  for (long row = begin; row < end; ++row) {
    own = next_sequence_of(own, row, bounds, s.sequences);
    Floats sum = floats_of(0.0f);
    for_each_tap(kept, weight, c, left, s, [&](long j, const Floats& factor) {
      const long at = row + s.taps - j;
      if (own.number >= 0 && at < own.end) sum = sum + factor * fetch(x, at * s.x[0] + c * s.x[1], s.x[1], left);
    });
    spread(y, row * s.y[0] + c * s.y[1], s.y[1], left, sum);
  }
}

// partial[j, team, channels]: sums over the team's rows of dy x of j; behind the last j those of dy. y: dy. A team is a
// block's second index; its third one counts parts of SUMMED columns.
KERNEL_BOUNDED(causal_conv1d_sums, 128, 4)(Tensor y, Tensor x, const int* bounds, float* partial, ConvSizes s) {
  const long c = (static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x) * W, left = s.channels - c;
  if (left <= 0) return;
  const long team = blockIdx.y, teams = gridDim.y, first = static_cast<long>(blockIdx.z) * SUMMED;
  const long begin = team * s.rows_of_thread;
  const long end = begin + s.rows_of_thread < s.rows ? begin + s.rows_of_thread : s.rows;
  Floats sums[SUMMED], of_bias = floats_of(0.0f);
  UNROLL for (int i = 0; i < SUMMED; ++i) sums[i] = floats_of(0.0f);
  Sequence own = {-1, 0, 0};
  for (long row = begin; row < end; ++row) {
    own = next_sequence_of(own, row, bounds, s.sequences);
    if (own.number < 0) continue;
    const Floats upstream = fetch(y, row * s.y[0] + c * s.y[1], s.y[1], left);
    of_bias = of_bias + upstream;
    UNROLL for (int i = 0; i < SUMMED; ++i) {
      const long at = row - s.taps + first + i;
      if (first + i > s.taps || at < own.begin) continue;
      sums[i] = sums[i] + upstream * fetch(x, at * s.x[0] + c * s.x[1], s.x[1], left);
    }
  }
  const Tensor to = floats_at(partial);
  UNROLL for (int i = 0; i < SUMMED; ++i) {
    if (first + i <= s.taps) spread<F32>(to, ((first + i) * teams + team) * s.channels + c, 1, left, sums[i]);
  }
  if (first == 0) spread<F32>(to, ((s.taps + 1) * teams + team) * s.channels + c, 1, left, of_bias);
}
