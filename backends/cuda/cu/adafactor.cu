// Shazeer and Stern, ICML 2018. A block has a row of a matrix, or 1,024 elements of a parameter that is none. All
// tensors are contiguous. `row` is there: the parameter is a matrix, or a stack of them.
#include "backends/cuda/cu/vectors.cuh"

struct Adafactor {
  float *param, *row, *col, *v, *m;
  Tensor grad;
  const float* hyper;
  long elements, matrices, rows, columns;
  long rows_of_part;  // whose columns a block sums
  // Memory between the steps: of each row the squares of param and of the step, and 1 / sqrt(row / mean); of each
  // column 1 / sqrt(col); the two factors of the step; of each part of a matrix its columns' sums.
  float *param_squares, *step_squares, *row_factor, *col_factor, *factors, *partial;
};
enum { LR, BETA2, REST2, EPS1, EPS2, CLIP, BETA1, REST1, WEIGHT_DECAY, SCALE_PARAMETER, GRAD_SCALE };

// What a block's row is: `count` elements from `first` on.
struct Row {
  long index, first, count;
};
DEVICE Row row_of(const Adafactor& a) {
  const long index = blockIdx.x, first = index * a.columns, left = a.elements - first;
  return {index, first, left < a.columns ? left : a.columns};
}
DEVICE Floats floats_of_row(float* memory, const Row& row, long c) {
  return fetch(floats_at(memory), row.first + c, 1, row.count - c);
}
DEVICE Floats gradient(const Adafactor& a, const Row& row, long c) {
  return fetch(a.grad, row.first + c, 1, row.count - c) * a.hyper[GRAD_SCALE];
}
// As the second moments take it.
DEVICE Floats square_of(const Adafactor& a, const Floats& gradient) { return gradient * gradient + a.hyper[EPS1]; }
// The step before it is clipped and scaled; 0 behind the row.
DEVICE Floats step_of(const Adafactor& a, const Row& row, long c) {
  const Floats g = gradient(a, row, c);
  if (a.row != nullptr) {
    const long column = row.index / a.rows * a.columns + c;
    return g * a.row_factor[row.index] * fetch(floats_at(a.col_factor), column, 1, row.count - c);
  }
  const Floats v = floats_of_row(a.v, row, c);
  Floats step;
  UNROLL for (int i = 0; i < W; ++i) step[i] = c + i < row.count ? g[i] / sqrtf(v[i]) : 0.0f;
  return step;
}

KERNEL_BOUNDED(adafactor_rows, 128, 8)(Adafactor a) {
  SHARED float scratch[32];
  const float* const h = a.hyper;
  const Row row = row_of(a);
  float squares = 0.0f, sum = 0.0f;
  for (long c = threadIdx.x * W; c < row.count; c += 128 * W) {
    const Floats param = floats_of_row(a.param, row, c);
    const Floats square = square_of(a, gradient(a, row, c));
    squares += sum_of(param * param);
    sum += sum_of(first_of(square, row.count - c));
    if (a.row != nullptr) continue;
    const Floats state = floats_of_row(a.v, row, c) * h[BETA2] + square * h[REST2];
    spread(floats_at(a.v), row.first + c, 1, row.count - c, state);
  }
  squares = block_sum(squares, scratch);
  sum = block_sum(sum, scratch);
  if (threadIdx.x != 0) return;
  a.param_squares[row.index] = squares;
  if (a.row == nullptr) return;
  float* const state = a.row + row.index;
  *state = h[BETA2] * *state + h[REST2] * (sum / static_cast<float>(a.columns));
}

// A block has a matrix.
KERNEL(adafactor_scale_rows)(Adafactor a) {
  SHARED float scratch[32];
  const long first = blockIdx.x * a.rows;
  float sum = 0.0f;
  for (long i = threadIdx.x; i < a.rows; i += blockDim.x) sum += a.row[first + i];
  const float mean = block_sum(sum, scratch) / static_cast<float>(a.rows);
  for (long i = threadIdx.x; i < a.rows; i += blockDim.x) {
    a.row_factor[first + i] = 1.0f / sqrtf(a.row[first + i] / mean);
  }
}

// partial[matrix, part, column]: a block has 256 columns of a part, each of its 8 warps every 8th row.
KERNEL_BOUNDED(adafactor_part_of_columns, 256, 4)(Adafactor a) {
  SHARED float sums[8][32 * W];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long column = (static_cast<long>(blockIdx.x) * 32 + lane) * W, first = blockIdx.y * a.rows_of_part;
  const long end = first + a.rows_of_part < a.rows ? first + a.rows_of_part : a.rows;
  const long left = a.columns - column;
  Floats sum = floats_of(0.0f);
  if (left > 0) {
    for (long r = first + warp; r < end; r += 8) {
      const long at = (blockIdx.z * a.rows + r) * a.columns + column;
      sum = sum + square_of(a, fetch(a.grad, at, 1, left) * a.hyper[GRAD_SCALE]);
    }
  }
  UNROLL for (int i = 0; i < W; ++i) sums[warp][i * 32 + lane] = sum[i];
  __syncthreads();
  const int own = threadIdx.x, place = own % W * 32 + own / W;
  const long at = static_cast<long>(blockIdx.x) * 32 * W + own;
  float total = 0.0f;
  UNROLL for (int i = 0; i < 8; ++i) total += sums[i][place];
  if (at < a.columns) a.partial[(static_cast<long>(blockIdx.z) * gridDim.y + blockIdx.y) * a.columns + at] = total;
}

// A thread has a column; `parts` of each.
KERNEL(adafactor_columns)(Adafactor a, long parts) {
  const long at = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.matrices * a.columns) return;
  const float* const h = a.hyper;
  const float* const partial = a.partial + at / a.columns * parts * a.columns + at % a.columns;
  float sum = 0.0f;
  for (long part = 0; part < parts; ++part) sum += partial[part * a.columns];
  const float state = h[BETA2] * a.col[at] + h[REST2] * (sum / static_cast<float>(a.rows));
  a.col[at] = state;
  a.col_factor[at] = 1.0f / sqrtf(state);
}

KERNEL_BOUNDED(adafactor_measure, 128, 8)(Adafactor a) {
  SHARED float scratch[32];
  const Row row = row_of(a);
  float sum = 0.0f;
  for (long c = threadIdx.x * W; c < row.count; c += 128 * W) {
    const Floats step = step_of(a, row, c);
    sum += sum_of(step * step);
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) a.step_squares[row.index] = sum;
}

// The factor of the step, and that of the decay: one block.
KERNEL(adafactor_scale)(Adafactor a) {
  SHARED float scratch[32];
  const float* const h = a.hyper;
  float of_param = 0.0f, of_step = 0.0f;
  for (long i = threadIdx.x; i < a.matrices * a.rows; i += blockDim.x) {
    of_param += a.param_squares[i];
    of_step += a.step_squares[i];
  }
  of_param = sqrtf(block_sum(of_param, scratch) / static_cast<float>(a.elements));
  of_step = sqrtf(block_sum(of_step, scratch) / static_cast<float>(a.elements));
  if (threadIdx.x != 0) return;
  const float scale = h[LR] * (h[SCALE_PARAMETER] != 0.0f ? fmaxf(h[EPS2], of_param) : 1.0f);
  a.factors[0] = scale / fmaxf(1.0f, of_step / h[CLIP]);
  a.factors[1] = h[WEIGHT_DECAY] * scale;
}

KERNEL_BOUNDED(adafactor_change, 128, 8)(Adafactor a) {
  const float* const h = a.hyper;
  const float factor = a.factors[0], keep = 1.0f - a.factors[1];
  const Row row = row_of(a);
  for (long c = threadIdx.x * W; c < row.count; c += 128 * W) {
    const long at = row.first + c, left = row.count - c;
    Floats step = step_of(a, row, c) * factor;
    if (a.m != nullptr) {
      step = floats_of_row(a.m, row, c) * h[BETA1] + step * h[REST1];
      spread(floats_at(a.m), at, 1, left, step);
    }
    spread(floats_at(a.param), at, 1, left, floats_of_row(a.param, row, c) * keep - step);
  }
}
