// Products by register tiles, by work-groups that share their sides in local memory, by work-groups that split a long
// sum, and one for any strides. Each sum has a fixed order that depends neither on m nor on n.
//
// -D TM, TN: rows of a and of b to a work-item. J_FIRST: neighbouring work-groups go along j. GROUPED: rows of a belong
// to experts by a list of tiles (grouped.cl). PACKING: b is expanded on the way (packing.clh). SHARE: work-items to a
// sum. BM, BN, BK: tile of a work-group.
#include "backends/opencl/cl/product_sides.clh"
#ifdef PACKING
#include "backends/opencl/cl/packing.clh"
#include "backends/opencl/cl/packed_side.clh"
#endif

#ifdef J_FIRST
#define I_DIM 1
#define J_DIM 0
#else
#define I_DIM 0
#define J_DIM 1
#endif

// Where the work of tile `t` lies: rows from first to end, whose b is that of `batch`. Grouped: rows of no expert (-1)
// become zeros.
#ifdef GROUPED
#define GROUPS , INPUT(tiles)
#define FIND_ROWS(t, TILE)                                               \
  const int4 tile = vload4(t, AS(int, tiles));         \
  const int first = tile.x, end = tile.y;                                \
  const long batch = tile.z;                                             \
  const long a_at = 0, out_at = 0;
#else
#define GROUPS
#define FIND_ROWS(t, TILE)                                               \
  const int first = (t) * TILE, end = min(first + TILE, p.m);            \
  const long batch = get_global_id(2);                                   \
  const long a_at = batch * p.a_batch, out_at = batch * p.out_batch;
#endif
#define OPEN_SIDES \
  const global uchar* a = AT(a); \
  OPEN_B
#define B_AT (batch * p.b_batch)
#define A_ROW(i) (a_at + row_at(i, p.a_row, p.a_sub, p.parts))
#define A_BEGIN(i) (a + A_ROW(i) * BYTES_OF(a_T))

// One result after the other, for what no vector fits; in the order of product_outer.
static inline void each_alone(const global uchar* a, B_POINTER, const global uchar* bias, global uchar* out, const Product* q,
                long a_at, long out_at, long batch, int i_begin, int i_end, int j_begin, int j_end) {
  const Product p = *q;
  for (int i = i_begin; i < i_end; ++i) {
    const long row = A_ROW(i);
    for (int j = j_begin; j < j_end; ++j) {
      float sum = 0;
      for (int c = 0; c < p.k; ++c) sum = fma(A_ONE(a, row + c * p.a_col), B_ELEMENT(j, c), sum);
      finish(out, bias, q, out_at, batch, i, j, sum);
    }
  }
}

static inline void no_expert(global uchar* out, const Product* p, int i_begin, int i_end, int j_begin, int j_end) {
  if (p->adds) return;
  for (int i = i_begin; i < i_end; ++i) {
    for (int j = j_begin; j < j_end; ++j) {
      store_float(p->out_type, out, row_at(i, p->out_row, p->out_sub, p->parts) + j * p->out_col, 0.0f);
    }
  }
}

// Any strides: TM x TN results by one work-item.
kernel void product_plain(INPUT(a), B_PARAMETERS, INPUT(bias), OUTPUT(out), const Product p GROUPS) {
  const int j0 = get_global_id(J_DIM) * TN, j1 = min(j0 + TN, p.n);
  OPEN_SIDES
  FIND_ROWS(get_global_id(I_DIM), TM)
  if (first >= end || j0 >= p.n) return;
  if (batch < 0) {
    no_expert(AT(out), &p, first, end, j0, j1);
  } else {
    each_alone(a, B_GIVEN, AT(bias), AT(out), &p, a_at, out_at, batch, first, end, j0, j1);
  }
}

// Both sides lie along c: V sums side by side, added at the end; what is left of c after them.
kernel void product_dot(INPUT(a), B_PARAMETERS, INPUT(bias), OUTPUT(out), const Product p GROUPS) {
  const int j0 = get_global_id(J_DIM) * TN;
  OPEN_SIDES
  FIND_ROWS(get_global_id(I_DIM), TM)
  if (first >= end || j0 >= p.n) return;
  if (batch < 0) {
    no_expert(AT(out), &p, first, end, j0, min(j0 + TN, p.n));
    return;
  }
  const global uchar* a_row[TM];
  B_BEGIN_TYPE b_row[TN];
  VECTOR sums[TM][TN];
  UNROLL for (int i = 0; i < TM; ++i) a_row[i] = A_BEGIN(min(first + i, end - 1));
  UNROLL for (int j = 0; j < TN; ++j) b_row[j] = B_BEGIN(min(j0 + j, p.n - 1));
  UNROLL for (int i = 0; i < TM; ++i) {
    UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = 0.0f;
  }
  const int whole = p.k / V * V;
  for (int c = 0; c < whole; c += V) {
    VECTOR from_b[TN];
    UNROLL for (int j = 0; j < TN; ++j) from_b[j] = B_ALONG(b_row[j], c);
    UNROLL for (int i = 0; i < TM; ++i) {
      const VECTOR x = A_VECTOR(a_row[i], c);
      UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = fma(x, from_b[j], sums[i][j]);
    }
  }
  UNROLL for (int i = 0; i < TM; ++i) {
    UNROLL for (int j = 0; j < TN; ++j) {
      if (first + i < end && j0 + j < p.n) {
        float sum = sum_of(sums[i][j]);
        for (int c = whole; c < p.k; ++c) sum = fma(A_ONE(a_row[i], c), B_ONE_ALONG(b_row[j], c), sum);
        finish(AT(out), AT(bias), &p, out_at, batch, first + i, j0 + j, sum);
      }
    }
  }
}

// b lies along j: TN vectors of V neighbours, by TM numbers of a.
kernel void product_outer(INPUT(a), B_PARAMETERS, INPUT(bias), OUTPUT(out), const Product p GROUPS) {
  const int own = get_global_id(J_DIM) * (TN * V);
  OPEN_SIDES
  FIND_ROWS(get_global_id(I_DIM), TM)
  if (first >= end || own >= p.n) return;
  const int j_end = min(own + TN * V, p.n);
  if (batch < 0) {
    no_expert(AT(out), &p, first, end, own, j_end);
    return;
  }
  if (p.n < TN * V) {
    each_alone(a, B_GIVEN, AT(bias), AT(out), &p, a_at, out_at, batch, first, end, own, j_end);
    return;
  }
  const int j0 = min(own, p.n - TN * V);  // the last ones begin earlier, and leave what is others'
  const global uchar* a_row[TM];
  VECTOR sums[TM][TN];
  UNROLL for (int i = 0; i < TM; ++i) a_row[i] = A_BEGIN(min(first + i, end - 1));
  UNROLL for (int i = 0; i < TM; ++i) {
    UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = 0.0f;
  }
  for (int c = 0; c < p.k; ++c) {
    VECTOR from_b[TN];
    UNROLL for (int j = 0; j < TN; ++j) from_b[j] = B_ACROSS(c, j0 + j * V);
    UNROLL for (int i = 0; i < TM; ++i) {
      const VECTOR x = (VECTOR)(A_ONE(a_row[i], c * p.a_col));
      UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = fma(x, from_b[j], sums[i][j]);
    }
  }
  UNROLL for (int i = 0; i < TM; ++i) {
    if (first + i >= end) continue;
    UNROLL for (int j = 0; j < TN; ++j) {
      finish_vector(AT(out), AT(bias), &p, out_at, batch, first + i, j0 + j * V, own, sums[i][j]);
    }
  }
}

#ifdef SHARE
// Both sides lie along c, and rows are few: SHARE work-items share a sum, so that they read neighbouring numbers.
kernel __attribute__((reqd_work_group_size(SHARE, 1, 1))) void product_shared(INPUT(a), B_PARAMETERS, INPUT(bias),
                                                                               OUTPUT(out), const Product p GROUPS) {
  local float shared[TM * TN][SHARE];
  const int lane = get_local_id(0);
  const int j0 = get_group_id(0) * TN;
  OPEN_SIDES
  FIND_ROWS(get_global_id(1), TM)
  if (first >= end || j0 >= p.n) return;  // all of the group alike
  if (batch < 0) {
    if (lane == 0) no_expert(AT(out), &p, first, end, j0, min(j0 + TN, p.n));
    return;
  }
  const global uchar* a_row[TM];
  B_BEGIN_TYPE b_row[TN];
  VECTOR sums[TM][TN];
  UNROLL for (int i = 0; i < TM; ++i) a_row[i] = A_BEGIN(min(first + i, end - 1));
  UNROLL for (int j = 0; j < TN; ++j) b_row[j] = B_BEGIN(min(j0 + j, p.n - 1));
  UNROLL for (int i = 0; i < TM; ++i) {
    UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = 0.0f;
  }
  const int whole = p.k / V * V;
  for (int c = lane * V; c < whole; c += SHARE * V) {
    VECTOR from_b[TN];
    UNROLL for (int j = 0; j < TN; ++j) from_b[j] = B_ALONG(b_row[j], c);
    UNROLL for (int i = 0; i < TM; ++i) {
      const VECTOR x = A_VECTOR(a_row[i], c);
      UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = fma(x, from_b[j], sums[i][j]);
    }
  }
  UNROLL for (int i = 0; i < TM; ++i) {
    UNROLL for (int j = 0; j < TN; ++j) {
      float sum = sum_of(sums[i][j]);
      if (whole + lane < p.k) sum = fma(A_ONE(a_row[i], whole + lane), B_ONE_ALONG(b_row[j], whole + lane), sum);
      shared[i * TN + j][lane] = sum;
    }
  }
  for (int half_lanes = SHARE / 2; half_lanes > 0; half_lanes /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_lanes) {
      UNROLL for (int s = 0; s < TM * TN; ++s) shared[s][lane] += shared[s][lane + half_lanes];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = lane; s < TM * TN; s += SHARE) {
    const int i = first + s / TN, j = j0 + s % TN;
    if (i < end && j < p.n) finish(AT(out), AT(bias), &p, out_at, batch, i, j, shared[s][0]);
  }
}
#endif

#ifdef BM
// A work-group brings BK steps of BM rows of a and BN of b into local memory, whatever their strides, and each
// work-item adds up TM x TN results from there, c after c.
#define GROUP_ITEMS ((BM / TM) * (BN / TN))
kernel __attribute__((reqd_work_group_size(BM / TM, BN / TN, 1))) void product_tile(INPUT(a), B_PARAMETERS, INPUT(bias),
                                                                                      OUTPUT(out), const Product p GROUPS) {
  local float a_tile[BK][BM + 1];
  local float b_tile[BK][BN + 1];
  const int x = get_local_id(0), y = get_local_id(1), item = y * (BM / TM) + x;
  const int j0 = get_group_id(1) * BN;
  OPEN_SIDES
  FIND_ROWS(get_group_id(0), BM)
  if (first >= end || j0 >= p.n) return;  // all of the group alike
  if (batch < 0) {
    if (item == 0) no_expert(AT(out), &p, first, end, j0, min(j0 + BN, p.n));
    return;
  }
  float sums[TM][TN];
  UNROLL for (int i = 0; i < TM; ++i) {
    UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = 0.0f;
  }
  for (int c0 = 0; c0 < p.k; c0 += BK) {
    for (int e = item; e < BM * BK; e += GROUP_ITEMS) {
      const int i = A_IS_ALONG ? e / BK : e % BM, c = A_IS_ALONG ? e % BK : e / BM;
      const bool there = first + i < end && c0 + c < p.k;
      a_tile[c][i] = there ? A_ONE(a, A_ROW(first + i) + (c0 + c) * p.a_col) : 0.0f;
    }
    FILL_B_TILE(item, GROUP_ITEMS, j0, c0)
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int c = 0; c < BK; ++c) {
      float from_a[TM], from_b[TN];
      UNROLL for (int i = 0; i < TM; ++i) from_a[i] = a_tile[c][x + i * (BM / TM)];
      UNROLL for (int j = 0; j < TN; ++j) from_b[j] = b_tile[c][y + j * (BN / TN)];
      UNROLL for (int i = 0; i < TM; ++i) {
        UNROLL for (int j = 0; j < TN; ++j) sums[i][j] = fma(from_a[i], from_b[j], sums[i][j]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  UNROLL for (int i = 0; i < TM; ++i) {
    UNROLL for (int j = 0; j < TN; ++j) {
      const int row = first + x + i * (BM / TM), column = j0 + y + j * (BN / TN);
      if (row < end && column < p.n) finish(AT(out), AT(bias), &p, out_at, batch, row, column, sums[i][j]);
    }
  }
}
#endif

#ifdef MATRIX
// Intel's matrix units: 16 work-items, which are one sub-group, multiply 8 rows of 16 numbers by 16 columns of as many, of 16
// bits. MATRIX is their dtype. Without the extension the same is written out, work-item by work-item.
#define MATRIX_LANES 16
#ifdef cl_intel_subgroup_matrix_multiply_accumulate
#define SUB_GROUP __attribute__((intel_reqd_sub_group_size(MATRIX_LANES)))
#define FOR_OTHERS
#define UNROLL_MATRIX UNROLL
#if MATRIX == F16
#define MULTIPLY(x, y, sum) intel_sub_group_f16_f16_matrix_mad_k16(x, y, sum)
#else
#define MULTIPLY(x, y, sum) intel_sub_group_bf16_bf16_matrix_mad_k16(x, y, sum)
#endif
#else
#define SUB_GROUP
#define UNROLL_MATRIX _Pragma("nounroll")  // compilers of CPUs take minutes else
#define FOR_OTHERS local float of_all[8 * MATRIX_LANES];
#define MULTIPLY(x, y, sum) multiply(x, y, sum, of_all)
static inline float number_of(uint bits) {
  const ushort low = (ushort)bits;
  return MATRIX == F16 ? vload_half(0, (const half*)&low) : bf16_to_float(low);
}
// x: of each row the number of this work-item's place in the sum; y: this work-item's column, two to an int.
static inline float8 multiply(short8 x, int8 y, float8 sum, local float* of_all) {
  ushort rows[8];
  uint column[8];
  float sums[8];
  vstore8(as_ushort8(x), 0, rows);
  vstore8(as_uint8(y), 0, column);
  vstore8(sum, 0, sums);
  UNROLL_MATRIX for (int i = 0; i < 8; ++i) of_all[i * MATRIX_LANES + get_local_id(0)] = number_of(rows[i]);
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL_MATRIX for (int c = 0; c < 16; ++c) {
    const float factor = number_of(column[c / 2] >> (c % 2 * 16));
    for (int i = 0; i < 8; ++i) sums[i] = fma(of_all[i * MATRIX_LANES + c], factor, sums[i]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return vload8(0, sums);
}
#endif
static inline uint bits_of(float x) {
  ushort bits;
  if (MATRIX == BF16) return float_to_bf16(x);
  vstore_half_rte(x, 0, (half*)&bits);
  return bits;
}

kernel SUB_GROUP __attribute__((reqd_work_group_size(MATRIX_LANES, 1, 1))) void product_matrix(
    INPUT(a), B_PARAMETERS, INPUT(bias), OUTPUT(out), const Product p GROUPS) {
  FOR_OTHERS
  const int lane = get_local_id(0), j0 = get_group_id(1) * TN;
  OPEN_SIDES
  FIND_ROWS(get_group_id(0), TM)
  if (first >= end || j0 >= p.n) return;  // all of the group alike
  if (batch < 0) {
    if (lane == 0) no_expert(AT(out), &p, first, end, j0, min(j0 + TN, p.n));
    return;
  }
  float8 sums[TM / 8][TN / 16];
  UNROLL_MATRIX for (int i = 0; i < TM / 8; ++i) {
    UNROLL_MATRIX for (int j = 0; j < TN / 16; ++j) sums[i][j] = (float8)(0.0f);
  }
  for (int c0 = 0; c0 < p.k; c0 += 16) {
    int8 from_b[TN / 16];
    UNROLL_MATRIX for (int j = 0; j < TN / 16; ++j) {
      const int column = j0 + j * 16 + lane;
      uint pairs[8];
      UNROLL_MATRIX for (int c = 0; c < 8; ++c) {
        const int at = c0 + 2 * c;
        const uint low = column < p.n && at < p.k ? bits_of(B_ELEMENT(column, at)) : 0;
        const uint high = column < p.n && at + 1 < p.k ? bits_of(B_ELEMENT(column, at + 1)) : 0;
        pairs[c] = low | high << 16;
      }
      from_b[j] = as_int8(vload8(0, pairs));
    }
    UNROLL_MATRIX for (int i = 0; i < TM / 8; ++i) {
      ushort rows[8];
      UNROLL_MATRIX for (int r = 0; r < 8; ++r) {
        const int row = first + i * 8 + r;
        const bool there = row < end && c0 + lane < p.k;
        rows[r] = there ? (ushort)bits_of(A_ONE(a, A_ROW(row) + (c0 + lane) * p.a_col)) : (ushort)0;
      }
      const short8 x = as_short8(vload8(0, rows));
      UNROLL_MATRIX for (int j = 0; j < TN / 16; ++j) sums[i][j] = MULTIPLY(x, from_b[j], sums[i][j]);
    }
  }
  UNROLL_MATRIX for (int i = 0; i < TM / 8; ++i) {
    UNROLL_MATRIX for (int j = 0; j < TN / 16; ++j) {
      float values[8];
      const int column = j0 + j * 16 + lane;
      vstore8(sums[i][j], 0, values);
      for (int r = 0; r < 8; ++r) {
        const int row = first + i * 8 + r;
        if (row < end && column < p.n) finish(AT(out), AT(bias), &p, out_at, batch, row, column, values[r]);
      }
    }
  }
}
#endif
