// The way back of gated_delta_rule and selective_scan. A block carries columns of a head's state and of its gradient,
// as cu/recurrent.cuh says. On the way there the state is kept in memory before each tile of rows; on the way back,
// which goes tile by tile from the last, before each HELD rows in shared memory, and is computed again from there.
#pragma once

#include "backends/cuda/cu/recurrent.cuh"

CONSTANT int HELD = 4;

// Where a launch's heads and sums are. What sums over columns goes into partial[chunk of columns, row, head of the
// launch, 2 state_rows + extra]: two vectors and some numbers.
struct BackwardLaunch {
  long first_head, heads;
  int state_rows, extra;
};

// Memory of a block: states before tiles, the same in shared memory before each HELD rows, and [2, warps, 8 R + 4] for
// sums.
template <int R>
struct BackwardRoom {
  float *states, *held, *sums;
  DEVICE_MEMBER BackwardRoom(float* states_, float* shared, const Carried& own, long rows, long sequences, long heads,
                             long columns)
      : held(shared), sums(shared + TILE / HELD * R * blockDim.x) {
    const long chunks = (columns + columns_of_block() - 1) / columns_of_block();
    // One for each tile of rows, and one more for each sequence, as it may begin within these.
    const long places = rows / TILE + sequences + 1;
    const long first = (own.head * chunks + own.chunk) * places + own.begin / TILE + own.sequence;
    states = states_ + first * R * blockDim.x;
  }
  DEVICE_MEMBER float* of_warp(int t) const {
    return sums + (t % 2 * (blockDim.x / 32) + threadIdx.x / 32) * (8 * R + 4);
  }
};
template <int R>
DEVICE int shared_of_backward() {
  return TILE / HELD * R * blockDim.x + 2 * (blockDim.x / 32) * (8 * R + 4);
}
template <int R>
DEVICE void save(const float (&state)[R], float* to) {
  UNROLL for (int i = 0; i < R; ++i) to[i * blockDim.x + threadIdx.x] = state[i];
}
template <int R>
DEVICE void restore(float (&state)[R], const float* from) {
  UNROLL for (int i = 0; i < R; ++i) state[i] = from[i * blockDim.x + threadIdx.x];
}
// partial's part of a row: what the block's warps found, in their order.
template <int R>
DEVICE void sum_warps(const float* sums, float* to, const BackwardLaunch& launch) {
  const int warps = blockDim.x / 32;
  for (int i = threadIdx.x; i < 8 * R + launch.extra; i += blockDim.x) {
    const int part = i / (4 * R), at = i % (4 * R);
    if (part < 2 && at >= launch.state_rows) continue;
    float sum = sums[i];
    for (int warp = 1; warp < warps; ++warp) sum += sums[warp * (8 * R + 4) + i];
    to[part * launch.state_rows + at] = sum;
  }
}
// Puts this warp's sums of value(i) over its columns where they belong among its [4 R].
template <int R, typename Value>
DEVICE void rows_over_columns(float* to, Value&& value) {
  UNROLL for (int i = 0; i < R; i += 8) {
    float eight[8];
    UNROLL for (int j = 0; j < 8; ++j) eight[j] = value(i + j);
    to[state_row(i + static_cast<int>(threadIdx.x) % 8)] = eight_over_columns(eight);
  }
}

// A rule stages tiles; takes a state past row t of the tile for the first time, and again; and takes the gradient
// before it, given the state before it.
template <int R, typename Rule>
DEVICE void carry_back(Rule& rule, const Carried& own, const BackwardRoom<R>& room, float* partial, long rows,
                       const BackwardLaunch& launch) {
  float state[R], gradient[R];
  UNROLL for (int i = 0; i < R; ++i) state[i] = gradient[i] = 0.0f;
  const long tiles = (own.end - own.begin + TILE - 1) / TILE, width = 2 * launch.state_rows + launch.extra;
  for (long tile = 0; tile < tiles; ++tile) {
    save(state, room.states + tile * R * blockDim.x);
    if (tile == tiles - 1) break;
    __syncthreads();  // the tile of before has been read
    rule.stage_tile(own.begin + tile * TILE, TILE);
    __syncthreads();
    for (int t = 0; t < TILE; ++t) rule.advance(state, t);
  }
  for (long tile = tiles - 1; tile >= 0; --tile) {
    const long first = own.begin + tile * TILE;
    const int count = own.end - first < TILE ? static_cast<int>(own.end - first) : TILE;
    __syncthreads();
    rule.stage_tile(first, count);
    __syncthreads();
    restore(state, room.states + tile * R * blockDim.x);
    for (int t = 0; t < count; ++t) {
      if (t % HELD == 0) save(state, room.held + t / HELD * R * blockDim.x);
      rule.advance(state, t);
    }
    __syncwarp();  // what advance has left for advance_again
    for (int t = count - 1; t >= 0; --t) {
      restore(state, room.held + t / HELD * R * blockDim.x);
      for (int before = t / HELD * HELD; before < t; ++before) rule.advance_again(state, before);
      rule.back(state, gradient, t, first + t, room.of_warp(t));
      __syncthreads();
      float* const to = partial + ((own.chunk * rows + first + t) * launch.heads + own.head) * width;
      sum_warps<R>(room.sums + t % 2 * (blockDim.x / 32) * (8 * R + 4), to, launch);
    }
  }
}

// What a warp adds up afterwards: sums over chunks of columns, and over `group` heads from `head` on (of the launch),
// of number `at` of partial. 0 for rows outside of every sequence.
struct PartialSums {
  const float* partial;
  long rows, heads, chunks, width;
  bool inside;
  DEVICE_MEMBER float operator()(long row, long head, long group, long at) const {
    float sum = 0.0f;
    if (!inside) return sum;
    for (long chunk = 0; chunk < chunks; ++chunk) {
      for (long h = head; h < head + group; ++h) sum += partial[((chunk * rows + row) * heads + h) * width + at];
    }
    return sum;
  }
};
