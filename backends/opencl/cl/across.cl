// The side b of a product, which lies along the sum, as fp32 across it: element (j, c) at c `stride` + j, where `stride`
// is n up to a multiple of V. Outer products of many rows are worth it: they add up whole vectors, and no lanes. -D V, b_T.
#include "backends/opencl/cl/product_sides.clh"

kernel void product_across(INPUT(b), const long b_row, const long b_col, OUTPUT(across), const int n, const int k,
                           const int stride, const int length) {
  const int j0 = get_global_id(0) * V, begin = get_global_id(1) * length, end = min(begin + length, k);
  if (j0 >= n) return;
  long row[V];
  for (int j = 0; j < V; ++j) row[j] = min(j0 + j, n - 1) * b_row;
  for (int c = begin; c < end; ++c) {
    float lanes[V];
    UNROLL for (int j = 0; j < V; ++j) lanes[j] = load_float(b_T, AT(b), row[j] + c * b_col);
    CAT2(vstore, V)(CAT2(vload, V)(0, lanes), 0, AS_OUT(float, across) + (long)c * stride + j0);
  }
}
