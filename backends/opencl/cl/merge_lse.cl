kernel void merge_lse(INPUT(row_max), INPUT(row_sum), OUTPUT(lse), const long shards, const long rows,
                      const long max_shard, const long max_row, const long sum_shard, const long sum_row,
                      const long lse_row) {
  const long r = get_global_id(0);
  if (r >= rows) return;
  const global float* const maxima = AS(float, row_max) + r * max_row;
  const global float* const sums = AS(float, row_sum) + r * sum_row;
  float largest = -INFINITY;
  for (long s = 0; s < shards; ++s) {
    if (sums[s * sum_shard] != 0.0f) largest = fmax(largest, maxima[s * max_shard]);
  }
  float sum = 0.0f;
  for (long s = 0; s < shards; ++s) {
    if (sums[s * sum_shard] != 0.0f) sum += sums[s * sum_shard] * exp(maxima[s * max_shard] - largest);
  }
  AS_OUT(float, lse)[r * lse_row] = sum == 0.0f ? 0.0f : largest + log(sum);
}
