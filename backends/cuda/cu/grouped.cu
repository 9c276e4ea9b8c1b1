// The gradients of experts' biases. `offsets`: expert e has the rows from offsets[e] to offsets[e + 1]; row i of a
// tensor is its row i / parts, part i % parts.
#include "backends/cuda/cu/product.cuh"

// dbias[e] = sum of dy over its rows: 32 columns to a block, whose warps share the rows.
KERNEL(grouped_bias_gradient)(Tensor dy, const int* offsets, Tensor dbias, long dy_row, long dy_sub, long dy_col,
                              long out_expert, long out_col, int parts, int rows, int columns) {
  constexpr int kWarps = 8;
  SHARED float sums[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = static_cast<int>(blockIdx.x) * 32 + lane;
  const int e = blockIdx.y, begin = offsets[e] > 0 ? offsets[e] : 0, end = offsets[e + 1] < rows ? offsets[e + 1] : rows;
  float sum = 0.0f;
  if (column < columns) {
    UNROLL_4 for (int i = begin + warp; i < end; i += kWarps) {
      sum += get(dy, row_at(i, dy_row, dy_sub, parts) + column * dy_col);
    }
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int w = 1; w < kWarps; ++w) sum += sums[w][lane];
  put_or_add(dbias, e * out_expert + column * out_col, sum);
}
