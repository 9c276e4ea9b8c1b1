// Few rows by a weight of whole numbers beside scales, in whole numbers (TERN_COMPUTE_X15, ops/matmul_q.h): a block of 32 of x
// is q times a scale, q = 128 hi + lo in bytes, so that devices with dot products of packed bytes need two for four
// elements. Without them the same is written out. -D PACKING (one that HAS_PARTS), SHARE: work-items of a sum, TM rows of x,
// TN of the weight.
#include "backends/opencl/cl/packing.clh"

#ifdef cl_khr_integer_dot_product
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
#define DOT4(a, b) dot_4x8packed_ss_int(a, b)
#else
static inline int dot4(uint a, uint b) {
  const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
  return products.x + products.y + products.z + products.w;
}
#define DOT4(a, b) dot4(a, b)
#endif
static inline int dot16(char16 a, char16 b) {
  const uint4 x = as_uint4(a), y = as_uint4(b);
  return DOT4(x.x, y.x) + DOT4(x.y, y.y) + DOT4(x.z, y.z) + DOT4(x.w, y.w);
}

// As struct X15 of matmul_q_x15.cpp.
typedef struct {
  long x_row, x_col, y_row, y_col, bias_step;
  int rows, outputs, inputs;
  int x_type, y_type;
  int bias_type;  // -1: none
  int adds;
  int reserved;
} X15;

// Rows of x: hi and lo [rows, inputs], scales [rows, inputs / 32], sums of q of 16 [rows, inputs / 16].
kernel void x15_rows(INPUT(x), OUTPUT(high), OUTPUT(low), OUTPUT(scales), OUTPUT(sums), const X15 p) {
  const int blocks = p.inputs / 32, block = get_global_id(0);
  const long row = get_global_id(1);
  if (block >= blocks) return;
  float values[32];
  float most = 0.0f;
  bool finite = true;
  for (int c = 0; c < 32; ++c) {
    values[c] = load_float(p.x_type, AT(x), row * p.x_row + (block * 32 + c) * p.x_col);
    finite = finite && isfinite(values[c]);
    most = fmax(most, fabs(values[c]));
  }
  const bool counts = finite && most >= 0x1p-100f;
  const float factor = counts ? 16256.0f / most : 0.0f;
  for (int part = 0; part < 2; ++part) {
    int sum = 0;
    for (int c = part * 16; c < part * 16 + 16; ++c) {
      const int q = counts ? convert_int_rte(values[c] * factor) : 0;
      const int high_part = (q + 64) >> 7;
      const long at = row * p.inputs + block * 32 + c;
      AS_OUT(char, high)[at] = (char)high_part;
      AS_OUT(char, low)[at] = (char)(q - high_part * 128);
      sum += q;
    }
    AS_OUT(int, sums)[(row * blocks + block) * 2 + part] = sum;
  }
  AS_OUT(float, scales)[row * blocks + block] = !finite ? NAN : counts ? most / 16256.0f : 0.0f;
}

#ifdef HAS_PARTS
kernel __attribute__((reqd_work_group_size(SHARE, 1, 1))) void x15_product(INPUT(high), INPUT(low), INPUT(scales),
                                                                            INPUT(sums), WEIGHT_PARAMETERS, INPUT(bias),
                                                                            OUTPUT(y), const X15 p) {
  local float shared[TM * TN][SHARE];
  const int lane = get_local_id(0), j0 = get_group_id(0) * TN, i0 = get_global_id(1) * TM;
  float totals[TM][TN];
  OPEN_WEIGHT
  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; ++j) totals[i][j] = 0.0f;
  }
  for (int c = lane * 16; c < p.inputs; c += SHARE * 16) {
    for (int j = 0; j < TN; ++j) {
      const Parts parts = parts_16(&weight, min(j0 + j, p.outputs - 1), c);
      for (int i = 0; i < TM; ++i) {
        const long row = min(i0 + i, p.rows - 1);
        const char16 high_part = vload16(0, AS(char, high) + row * p.inputs + c);
        const char16 low_part = vload16(0, AS(char, low) + row * p.inputs + c);
        const int dot_part = dot16(high_part, parts.codes) * 128 + dot16(low_part, parts.codes);
        const float scale = AS(float, scales)[row * (p.inputs / 32) + c / 32];
        const float sum = AS(int, sums)[row * (p.inputs / 16) + c / 16];
        totals[i][j] = fma(scale, fma(parts.scale, (float)dot_part, parts.minimum * sum), totals[i][j]);
      }
    }
  }
  for (int s = 0; s < TM * TN; ++s) shared[s][lane] = totals[s / TN][s % TN];
  for (int half_way = SHARE / 2; half_way > 0; half_way /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_way) {
      for (int s = 0; s < TM * TN; ++s) shared[s][lane] += shared[s][lane + half_way];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = lane; s < TM * TN; s += SHARE) {
    const int i = i0 + s / TN, j = j0 + s % TN;
    if (i >= p.rows || j >= p.outputs) continue;
    const long at = i * p.y_row + j * p.y_col;
    float value = shared[s][0];
    if (p.bias_type >= 0) value += load_float(p.bias_type, AT(bias), j * p.bias_step);
    if (p.adds) value += load_float(p.y_type, AT(y), at);
    store_float(p.y_type, AT(y), at, value);
  }
}
#endif
