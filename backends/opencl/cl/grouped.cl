// Products of rows that belong to experts: where the tiles of product.cl lie, and the gradients of the experts' weights and
// biases. `offsets`: expert e has the rows from offsets[e] to offsets[e + 1]; row i of a tensor is its row i / parts,
// part i % parts. -D TM, TN, V as in product.cl; dy_T, x_T: dtypes.
#include "backends/opencl/cl/product_sides.clh"

// A list of tiles of up to `step` rows of one expert: first row, end, expert (-1: nobody's), 0. Expert e writes its own
// part of the list, whose size bounds what it may need; what it doesn't need is empty.
kernel void grouped_tiles(INPUT(offsets), OUTPUT(tiles), const int experts, const int rows, const int step) {
  const int e = get_global_id(0);
  if (e > experts) return;
  const global int* bounds = AS(int, offsets);
  const int begin = clamp(bounds[e], 0, rows), end = e < experts ? clamp(bounds[e + 1], begin, rows) : rows;
  const int last = end / step + e + 1;
  int row = begin;
  for (int slot = begin / step + e; slot < last; ++slot) {
    const int next = min(row + step, end);
    vstore4((int4)(row, next, e < experts ? e : -1, 0), slot, AS_OUT(int, tiles));
    row = next;
  }
}

// As struct Gradient of grouped_matmul.cpp.
typedef struct {
  long dy_row, dy_sub, dy_col;
  long x_row, x_sub, x_col;
  long out_expert, out_row, out_col;
  int parts, rows;
  int m, n;  // out, in
  int round;
  int adds;
} Gradient;

static inline void give_lanes(global float* out, long at, long step, int column, int columns, int adds, VECTOR value) {
  float lanes[V];
  CAT2(vstore, V)(value, 0, lanes);
  for (int l = 0; l < V && column + l < columns; ++l) {
    const long place = at + (column + l) * step;
    out[place] = adds ? out[place] + lanes[l] : lanes[l];
  }
}

#ifdef dy_T
// dw[e] = sum over its rows of dy^T x.
kernel void grouped_weight_gradient(INPUT(dy), INPUT(x), INPUT(offsets), OUTPUT(dw), const Gradient p) {
  const int j0 = get_global_id(0) * (TN * V), i0 = get_global_id(1) * TM, e = get_global_id(2);
  if (i0 >= p.m || j0 >= p.n) return;
  const int begin = max(AS(int, offsets)[e], 0), end = min(AS(int, offsets)[e + 1], p.rows);
  VECTOR sums[TM][TN];
  UNROLL for (int i = 0; i < TM; ++i) {
    UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = 0.0f;
  }
  for (int row = begin; row < end; ++row) {
    const long dy_at = row_at(row, p.dy_row, p.dy_sub, p.parts), x_at = row_at(row, p.x_row, p.x_sub, p.parts);
    VECTOR from_x[TN];
    UNROLL for (int j = 0; j < TN; ++j) {
      from_x[j] = round_vector(p.round, neighbours(x_T, AT(x), x_at, p.x_col, j0 + j * V, p.n));
    }
    UNROLL for (int i = 0; i < TM; ++i) {
      const int column = min(i0 + i, p.m - 1);
      const VECTOR factor = (VECTOR)(round_float(p.round, load_float(dy_T, AT(dy), dy_at + column * p.dy_col)));
      UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = fma(factor, from_x[j], sums[i][j]);
    }
  }
  UNROLL for (int i = 0; i < TM; ++i) {
    if (i0 + i >= p.m) continue;
    UNROLL for (int j = 0; j < TN; ++j) {
      const long at = e * p.out_expert + (i0 + i) * p.out_row;
      give_lanes(AS_OUT(float, dw), at, p.out_col, j0 + j * V, p.n, p.adds, sums[i][j]);
    }
  }
}

// dbias[e] = sum of dy over its rows.
kernel void grouped_bias_gradient(INPUT(dy), INPUT(offsets), OUTPUT(dbias), const Gradient p) {
  const int j0 = get_global_id(0) * V, e = get_global_id(1);
  if (j0 >= p.m) return;
  const int begin = max(AS(int, offsets)[e], 0), end = min(AS(int, offsets)[e + 1], p.rows);
  VECTOR sum = (VECTOR)(0.0f);
  for (int row = begin; row < end; ++row) {
    sum += neighbours(dy_T, AT(dy), row_at(row, p.dy_row, p.dy_sub, p.parts), p.dy_col, j0, p.m);
  }
  give_lanes(AS_OUT(float, dbias), e * p.out_expert, p.out_col, j0, p.m, p.adds, sum);
}
#endif
