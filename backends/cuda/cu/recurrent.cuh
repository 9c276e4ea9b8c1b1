// What gated_delta_rule and selective_scan share. A block carries some columns of a head's state [state_rows, columns]
// through one sequence: a warp has 8 columns, of each of which 4 threads hold R rows in registers. Columns have nothing
// to do with each other. Rows of the sequence come through shared memory, TILE of them at a time, as fp32.
#pragma once

#include "backends/cuda/cu/sequences.cuh"
#include "backends/cuda/cu/vectors.cuh"

CONSTANT int TILE = 16;  // kTile of recurrent.h
CONSTANT int COLUMNS_OF_WARP = 8;
CONSTANT int ROW_LANES = 4;

DEVICE int row_lane() { return static_cast<int>(threadIdx.x) % 32 / COLUMNS_OF_WARP; }
DEVICE int own_column() {
  return static_cast<int>(threadIdx.x) / 32 * COLUMNS_OF_WARP + static_cast<int>(threadIdx.x) % COLUMNS_OF_WARP;
}
DEVICE int columns_of_block() { return static_cast<int>(blockDim.x) / 32 * COLUMNS_OF_WARP; }
// Which row of the state a thread's i-th one is: four neighbours at a time.
DEVICE int state_row(int i) { return (i / 4 * ROW_LANES + row_lane()) * 4 + i % 4; }
// Sums over the rows, and over a warp's columns: each of its threads gets them.
DEVICE float over_rows(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 8);
  return value + __shfl_xor_sync(0xffffffffu, value, 16);
}
DEVICE float over_columns(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  value += __shfl_xor_sync(0xffffffffu, value, 2);
  return value + __shfl_xor_sync(0xffffffffu, value, 4);
}
// Sums of 8 values over a warp's columns: the thread of its c-th column gets that of values[c].
DEVICE float eight_over_columns(const float* values) {
  const int column = static_cast<int>(threadIdx.x) % 8;
  float four[4], two[2];
  UNROLL for (int i = 0; i < 4; ++i) {
    const bool high = (column & 4) != 0;
    four[i] = (high ? values[i + 4] : values[i]) + __shfl_xor_sync(0xffffffffu, high ? values[i] : values[i + 4], 4);
  }
  UNROLL for (int i = 0; i < 2; ++i) {
    const bool high = (column & 2) != 0;
    two[i] = (high ? four[i + 2] : four[i]) + __shfl_xor_sync(0xffffffffu, high ? four[i] : four[i + 2], 2);
  }
  const bool high = (column & 1) != 0;
  return (high ? two[1] : two[0]) + __shfl_xor_sync(0xffffffffu, high ? two[0] : two[1], 1);
}

// This thread's rows of a vector [4 R] in shared memory.
template <int R>
DEVICE void take_rows(float (&out)[R], const float* vector) {
  UNROLL for (int j = 0; j < R / 4; ++j) {
    const float4 four = reinterpret_cast<const float4*>(vector)[j * ROW_LANES + row_lane()];
    out[4 * j] = four.x;
    out[4 * j + 1] = four.y;
    out[4 * j + 2] = four.z;
    out[4 * j + 3] = four.w;
  }
}
// tile[t, room] = read(t, i) for t below `count` and i below `width`; 0 behind them.
template <typename Read>
DEVICE void stage(float* tile, int count, int width, int room, Read&& read) {
  for (int at = threadIdx.x; at < count * room; at += blockDim.x) {
    const int t = at / room, i = at % room;
    tile[at] = i < width ? read(t, i) : 0.0f;
  }
}
template <int R>
DEVICE float dot(const float (&a)[R], const float (&b)[R]) {
  float sums[4] = {};
  UNROLL for (int i = 0; i < R; ++i) sums[i % 4] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// What a block carries: the columns from `column` on of a head, through a sequence. Blocks count chunks of columns
// first, then heads, then sequences; behind the last of those come blocks for rows outside of every sequence.
struct Carried {
  long sequence, head, chunk, column;
  long begin, end;  // rows
  bool inside;
};
DEVICE Carried carried_of(const int* bounds, long rows, long sequences, long heads, long columns) {
  const long chunks = (columns + columns_of_block() - 1) / columns_of_block();
  const long chunk = blockIdx.x % chunks, head = blockIdx.x / chunks % heads, sequence = blockIdx.x / chunks / heads;
  const bool inside = sequence < sequences;
  const long begin = inside || sequences > 0 ? bounds[sequence] : 0;
  return {sequence, head, chunk, chunk * columns_of_block(), begin, inside ? bounds[sequence + 1] : rows, inside};
}
// Rows outside of every sequence are 0.
DEVICE void clear_rows(const Carried& own, const Tensor& out, const long (&stride)[3], long head, long columns) {
  const long width = columns - own.column < columns_of_block() ? columns - own.column : columns_of_block();
  for (long at = threadIdx.x; at < (own.end - own.begin) * width; at += blockDim.x) {
    const long row = own.begin + at / width, column = own.column + at % width;
    put(out, row * stride[0] + head * stride[1] + column * stride[2], 0.0f);
  }
}

// The state of a seat [seats, heads, state_rows, columns] f32, from and to registers.
template <int R>
DEVICE void load_state(float (&state)[R], const float* from, const long (&stride)[4], int rows, bool here) {
  UNROLL for (int i = 0; i < R; ++i) state[i] = here && state_row(i) < rows ? from[state_row(i) * stride[2]] : 0.0f;
}
template <int R>
DEVICE void store_state(const float (&state)[R], float* to, const long (&stride)[4], int rows) {
  UNROLL for (int i = 0; i < R; ++i) {
    if (state_row(i) < rows) to[state_row(i) * stride[2]] = state[i];
  }
}
