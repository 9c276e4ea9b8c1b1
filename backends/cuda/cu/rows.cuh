// What kernels that go row by row share (row_tile of rows.h): which threads have a row together.
#pragma once

#include "backends/cuda/cu/vectors.cuh"

// A warp of its block, so that blocks hold several, or the whole block. All threads of a team do the same rows.
struct Team {
  int thread;   // this one, of
  int threads;  // so many: 32, or those of the block
  long index;   // of all teams
};
DEVICE Team team_of(int threads) {
  if (threads > 32) return {static_cast<int>(threadIdx.x), threads, static_cast<long>(blockIdx.x)};
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
  return {static_cast<int>(threadIdx.x) % 32, 32, static_cast<long>(blockIdx.x) * warps + warp};
}
// As block_sum of common.cuh: in a fixed order, for every thread of the team. `scratch` is shared, float[32].
DEVICE float team_sum(const Team& team, float value, float* scratch) {
  return team.threads == 32 ? warp_sum(value) : block_sum(value, scratch);
}
// The first element of this thread's k-th vector of a row.
DEVICE long column_of(const Team& team, int k) { return (team.thread + static_cast<long>(k) * team.threads) * W; }
