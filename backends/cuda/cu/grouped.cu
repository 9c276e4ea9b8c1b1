// Products of rows that belong to experts: where the tiles of the products lie, and the gradients of the experts' biases.
// `offsets`: expert e has the rows from offsets[e] to offsets[e + 1]; row i of a tensor is its row i / parts, part i % parts.
#include "backends/cuda/cu/product.cuh"

// A list of tiles of up to `step` rows of one expert: first row, end, expert (-1: nobody's), 0. Expert e writes its own part
// of the list, whose size bounds what it may need; what it doesn't need is empty.
KERNEL(grouped_tiles)(const int* offsets, int* tiles, int experts, int rows, int step) {
  const int e = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (e > experts) return;
  const int from = offsets[e] < 0 ? 0 : offsets[e], begin = from < rows ? from : rows;
  const int to = e < experts ? offsets[e + 1] : rows, end = to < begin ? begin : to < rows ? to : rows;
  const int last = end / step + e + 1;
  int row = begin;
  for (int slot = begin / step + e; slot < last; ++slot) {
    const int next = row + step < end ? row + step : end;
    tiles[4 * slot] = row;
    tiles[4 * slot + 1] = next;
    tiles[4 * slot + 2] = e < experts ? e : -1;
    tiles[4 * slot + 3] = 0;
    row = next;
  }
}

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
