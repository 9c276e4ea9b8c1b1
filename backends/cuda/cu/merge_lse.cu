#include "backends/cuda/cu/common.cuh"

KERNEL(merge_lse)(const float* row_max, const float* row_sum, float* lse, long shards, long rows, long max_shard,
                  long max_row, long sum_shard, long sum_row, long lse_row) {
  const long r = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const float* const maxima = row_max + r * max_row;
  const float* const sums = row_sum + r * sum_row;
  float largest = -__int_as_float(0x7f800000);
  for (long s = 0; s < shards; ++s) {
    if (sums[s * sum_shard] != 0.0f) largest = fmaxf(largest, maxima[s * max_shard]);
  }
  float sum = 0.0f;
  for (long s = 0; s < shards; ++s) {
    if (sums[s * sum_shard] != 0.0f) sum += sums[s * sum_shard] * expf(maxima[s * max_shard] - largest);
  }
  lse[r * lse_row] = sum == 0.0f ? 0.0f : largest + logf(sum);
}
