#include "backends/cuda/cu/common.cuh"

KERNEL(shard_index)(const int* ids, int* y, Walk walk, long first, long count) {
  walk_over<2>(walk, [&](const long* at) {
    const long place = ids[at[1]] - first;
    y[at[0]] = place >= 0 && place < count ? static_cast<int>(place) : -1;
  });
}
