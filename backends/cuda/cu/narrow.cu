// Products with a narrow side: a matrix large [rows, width] by one of a few rows or columns, as adapters of low rank
// have them. In fp32 arithmetic; of a few rows the large matrix's memory is what takes time. The narrow sides are laid
// into the workspace as fp32 first, their rank filled up with zeros to whole groups of RANKS.
#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/dropout.cuh"

CONSTANT int RANKS = 8;

struct NarrowSizes {
  long rows, width;
  long pitch;    // of laid rows as long as width: whole vectors
  int rank;      // as laid: whole groups
  int results;   // of them, that are asked for
  long large[2];  // strides: of the large matrix, or of what is written in its place
  long out[2];    // strides of the narrow result: along the other dimension, along the rank
  float alpha;
  int rows_each;  // reduce: rows of a block
};

struct LaySizes {
  long rows, columns, filled_rows, filled_columns;
  long from[2];
};
// to [filled_rows, filled_columns]: from, and zeros around it.
KERNEL(narrow_lay)(Tensor from, float* to, LaySizes s) {
  long row, column;
  if (!find_part(s.filled_rows, s.filled_columns, row, column)) return;
  const bool inside = row < s.rows && column < s.columns;
  to[row * s.filled_columns + column] = inside ? get(from, row * s.from[0] + column * s.from[1]) : 0.0f;
}

// out[row, r] = alpha sum over c of dropout(large)[row, c] narrow[r, c]. A warp has ROWS rows, and of the ranks the
// group blockIdx.y; its lanes share the columns.
template <int rows>
DEVICE void narrow_shrink_rows(const Tensor& large, const float* narrow, const Tensor& out, const NarrowSizes& s,
                               const Dropping& drop) {
  const int lane = threadIdx.x % 32;
  const long first = (static_cast<long>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32) * rows;
  if (first >= s.rows) return;
  const int rank = blockIdx.y * RANKS;
  const Tensor side = floats_at(const_cast<float*>(narrow) + rank * s.pitch);
  float sums[rows][RANKS] = {};
  for (long c = lane * W; c < s.width; c += 32 * W) {
    const long left = s.width - c;
    Floats values[rows];
    UNROLL for (int i = 0; i < rows; ++i) {
      const long row = first + i;
      values[i] = row < s.rows ? fetch(large, row * s.large[0] + c * s.large[1], s.large[1], left) : floats_of(0.0f);
    }
    if (drop.drops()) {
      UNROLL for (int i = 0; i < rows; ++i) {
        if (first + i < s.rows) values[i] = kept_of(drop, values[i], first + i, c, left);
      }
    }
    UNROLL for (int r = 0; r < RANKS; ++r) {
      const Floats factors = fetch_wide<F32>(side, r * s.pitch + c);
      UNROLL for (int i = 0; i < rows; ++i) {
        UNROLL for (int l = 0; l < W; ++l) sums[i][r] = fmaf(values[i][l], factors[l], sums[i][r]);
      }
    }
  }
  UNROLL for (int i = 0; i < rows; ++i) {
    float own = 0.0f;  // of the rank that this lane writes
    UNROLL for (int r = 0; r < RANKS; ++r) {
      const float sum = warp_sum(sums[i][r]);
      if (lane == r) own = sum;
    }
    if (lane < RANKS && rank + lane < s.results && first + i < s.rows) {
      put_or_add(out, (first + i) * s.out[0] + (rank + lane) * s.out[1], s.alpha * own);
    }
  }
}
KERNEL_BOUNDED(narrow_shrink, 256, 2)
(Tensor large, const float* narrow, Tensor out, NarrowSizes s, Dropping drop) {
  narrow_shrink_rows<4>(large, narrow, out, s, drop);
}

// large[row, c] (+)= alpha dropout of the sum over r of left[row, r] right[r, c]. A thread has W columns of ROWS rows.
CONSTANT int EXPANDED = 4;
KERNEL_BOUNDED(narrow_expand, 128, 4)
(const float* left_side, const float* right_side, Tensor large, NarrowSizes s, Dropping drop) {
  const long c = (static_cast<long>(blockIdx.y) * blockDim.x + threadIdx.x) * W, left = s.width - c;
  const long first = static_cast<long>(blockIdx.x) * EXPANDED;
  if (left <= 0) return;
  const Tensor right = floats_at(const_cast<float*>(right_side)), low = floats_at(const_cast<float*>(left_side));
  Floats sums[EXPANDED];
  UNROLL for (int i = 0; i < EXPANDED; ++i) sums[i] = floats_of(0.0f);
  for (int r = 0; r < s.rank; r += RANKS) {
    Floats factors[EXPANDED];
    UNROLL for (int i = 0; i < EXPANDED; ++i) {
      factors[i] = first + i < s.rows ? fetch_wide<F32>(low, (first + i) * s.rank + r) : floats_of(0.0f);
    }
    UNROLL for (int g = 0; g < RANKS; ++g) {
      const Floats line = fetch_wide<F32>(right, (r + g) * s.pitch + c);
      UNROLL for (int i = 0; i < EXPANDED; ++i) {
        UNROLL for (int l = 0; l < W; ++l) sums[i][l] = fmaf(factors[i][g], line[l], sums[i][l]);
      }
    }
  }
  UNROLL for (int i = 0; i < EXPANDED; ++i) {
    const long row = first + i;
    if (row >= s.rows) return;
    Floats value = sums[i] * s.alpha;
    if (drop.drops()) value = kept_of(drop, value, row, c, left);
    const long to = row * s.large[0] + c * s.large[1];
    if (large.adds != 0) value = fetch(large, to, s.large[1], left) + value;
    spread(large, to, s.large[1], left, value);
  }
}

// partial [part, rank, width]: the sum over the part's rows of left[row, r] dropout(large)[row, c]. A thread has W
// columns and the ranks of group blockIdx.z.
KERNEL_BOUNDED(narrow_reduce, 128, 3)
(const float* left_side, Tensor large, float* partial, NarrowSizes s, Dropping drop) {
  const long c = (static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x) * W, left = s.width - c;
  if (left <= 0) return;
  const int rank = blockIdx.z * RANKS;
  const Tensor low = floats_at(const_cast<float*>(left_side) + rank);
  const long begin = static_cast<long>(blockIdx.y) * s.rows_each;
  const long end = begin + s.rows_each < s.rows ? begin + s.rows_each : s.rows;
  Floats sums[RANKS];
  UNROLL for (int r = 0; r < RANKS; ++r) sums[r] = floats_of(0.0f);
  _Pragma("unroll 2") for (long row = begin; row < end; ++row) {
    Floats values = fetch(large, row * s.large[0] + c * s.large[1], s.large[1], left);
    if (drop.drops()) values = kept_of(drop, values, row, c, left);
    const Floats factors = fetch_wide<F32>(low, row * s.rank);
    UNROLL for (int r = 0; r < RANKS; ++r) {
      UNROLL for (int l = 0; l < W; ++l) sums[r][l] = fmaf(factors[r], values[l], sums[r][l]);
    }
  }
  const Tensor to = floats_at(partial + (static_cast<long>(blockIdx.y) * s.rank + rank) * s.pitch);
  UNROLL for (int r = 0; r < RANKS; ++r) spread_wide<F32>(to, r * s.pitch + c, sums[r]);
}

// out (+)= alpha times the sum of the parts, from the first to the last.
KERNEL(narrow_combine)(const float* partial, Tensor out, NarrowSizes s, int parts) {
  long rank, column;
  if (!find_part(s.results, s.width, rank, column)) return;
  float sum = 0.0f;
  for (int part = 0; part < parts; ++part) sum += partial[(static_cast<long>(part) * s.rank + rank) * s.pitch + column];
  put_or_add(out, column * s.out[0] + rank * s.out[1], s.alpha * sum);
}
