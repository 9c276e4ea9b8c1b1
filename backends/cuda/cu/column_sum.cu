#include "backends/cuda/cu/common.cuh"

// out[column] (+)= the sum over blocks of partial[block, column]: 16 warps take every 16th block of 32 columns, and
// their sums are added in order.
KERNEL_BOUNDED(column_sum, 512, 2)(const float* partial, Tensor out, long blocks, long width, long stride) {
  SHARED float sums[16][32];
  begin_overlapped();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long column = static_cast<long>(blockIdx.x) * 32 + lane;
  float sum = 0.0f;
  if (column < width) {
    _Pragma("unroll 8") for (long block = warp; block < blocks; block += 16) sum += partial[block * width + column];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  sum = sums[0][lane];
  UNROLL for (int i = 1; i < 16; ++i) sum += sums[i][lane];
  put_or_add(out, column * stride, sum);
}
