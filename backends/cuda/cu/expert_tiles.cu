#include "backends/cuda/cu/common.cuh"

// A list of tiles of up to `step` rows of one expert: first row, end, expert (-1: rows of none), 0. Expert e has the
// rows from offsets[e] to offsets[e + 1]. There are `slots`; those that are left over are empty. One warp.
KERNEL(expert_tiles)(Tensor offsets, int* tiles, int experts, int rows, int step, int slots) {
  const int lane = threadIdx.x;
  const int* bounds = offsets.as<int>();
  const auto bound = [&](int e) { return e < 0 ? 0 : e > experts ? rows : min(max(bounds[e], 0), rows); };
  int before = 0;  // tiles of the experts of earlier rounds
  for (int e0 = 0; e0 <= experts; e0 += 32) {
    const int e = e0 + lane;  // `experts` itself: the rows after the last one's
    const int begin = bound(e), end = e > experts ? begin : max(bound(e + 1), begin);
    const int own = (end - begin + step - 1) / step;
    int until = own;
    for (int by = 1; by < 32; by *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, until, by);
      if (lane >= by) until += other;
    }
    for (int i = 0; i < own; ++i) {
      const int slot = before + until - own + i, first = begin + i * step;
      if (slot >= slots) break;
      int* tile = tiles + 4 * slot;
      tile[0] = first, tile[1] = min(first + step, end), tile[2] = e < experts ? e : -1, tile[3] = 0;
    }
    before += __shfl_sync(0xffffffffu, until, 31);
  }
  for (int slot = before + lane; slot < slots; slot += 32) {
    int* tile = tiles + 4 * slot;
    tile[0] = tile[1] = tile[3] = 0, tile[2] = -1;
  }
}
