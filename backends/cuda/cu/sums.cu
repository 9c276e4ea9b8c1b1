// all_finite, sum_squares, row_sum. Sums are cut at places that the shape alone decides, and joined in order.
#include "backends/cuda/cu/dense.cuh"
#include "backends/cuda/cu/rows.cuh"

KERNEL(all_finite_begin)(int* out, int adds) { *out = adds != 0 ? *out != 0 : 1; }

// Whoever finds something writes the same 0.
KERNEL(all_finite_look)(Tensor x, int* out, Dense dense) {
  const long unit = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (unit >= dense.walk.units) return;
  const Eight eight = eight_of(dense, unit);
  long begin[1];
  rows_of(dense.walk, eight.row, begin);
  const Floats values = fetch_eight(dense, 0, x, begin[0], eight);
  bool found = false;
  UNROLL for (int i = 0; i < W; ++i) found = found || (__float_as_uint(values[i]) & 0x7f800000u) == 0x7f800000u;
  if (found) *out = 0;
}

// A block's sum; its units are those of every grid.
KERNEL_BOUNDED(sum_squares_part, 256, 4)(Tensor x, float* parts, Dense dense) {
  SHARED float scratch[32];
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  float total = 0.0f;
  for (long unit = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; unit < dense.walk.units; unit += step) {
    const Eight eight = eight_of(dense, unit);
    long begin[1];
    rows_of(dense.walk, eight.row, begin);
    const Floats values = fetch_eight(dense, 0, x, begin[0], eight);
    total += sum_of(values * values);
  }
  total = block_sum(total, scratch);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

// By one block.
KERNEL(sum_squares_whole)(const float* parts, Tensor out, long count) {
  SHARED float scratch[32];
  float total = 0.0f;
  for (long i = threadIdx.x; i < count; i += blockDim.x) total += parts[i];
  total = block_sum(total, scratch);
  if (threadIdx.x == 0) put_or_add(out, 0, total);
}

// out[row] = sum of x[row, :]: a team for each row.
KERNEL(row_sum_along)(Tensor x, Tensor out, long rows, long width, long x_row, long x_column, long out_row,
                      int threads) {
  SHARED float scratch[32];
  const Team team = team_of(threads);
  if (team.index >= rows) return;
  const long row = team.index * x_row;
  float total = 0.0f;
  for (long c = team.thread * W; c < width; c += static_cast<long>(team.threads) * W) {
    total += sum_of(fetch(x, row + c * x_column, x_column, width - c));
  }
  total = team_sum(team, total, scratch);
  if (team.thread == 0) put_or_add(out, team.index * out_row, total);
}

// partial[part, column] = the sum of some rows of x[:, column]: a block has 256 columns, each of its 8 warps every 8th
// row.
KERNEL_BOUNDED(row_sum_across, 256, 4)(Tensor x, float* partial, long rows, long width, long x_row, long x_column,
                                       long rows_of_part) {
  SHARED float sums[8][32 * W];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long column = (static_cast<long>(blockIdx.x) * 32 + lane) * W, first = blockIdx.y * rows_of_part;
  const long end = first + rows_of_part < rows ? first + rows_of_part : rows;
  Floats sum = floats_of(0.0f);
  if (column < width) {
    _Pragma("unroll 4") for (long row = first + warp; row < end; row += 8) {
      sum = sum + fetch(x, row * x_row + column * x_column, x_column, width - column);
    }
  }
  UNROLL for (int i = 0; i < W; ++i) sums[warp][i * 32 + lane] = sum[i];
  __syncthreads();
  const int own = threadIdx.x;  // of the block's columns, as they lie: lane 8 elements
  const int place = own % W * 32 + own / W;
  float total = 0.0f;
  UNROLL for (int i = 0; i < 8; ++i) total += sums[i][place];
  const long at = static_cast<long>(blockIdx.x) * 32 * W + own;
  if (at < width) partial[blockIdx.y * width + at] = total;
}
