// Few rows in 16 bits, by the matrix units: the weight is the left side of their products, 8 rows of x the right one.
#include "backends/cuda/cu/few_rows.cuh"
#include "backends/cuda/cu/tensor_cores.cuh"

#define FEW_ROWS 8   // of x
#define FEW_UNITS 4  // that neighbouring lanes take, of 32 columns

template <int compute>
DEVICE uint pack_pair(float low, float high) {
  return compute == BF16 ? pack_bf16(low, high) : pack_f16(low, high);
}
// 16 neighbours of a row of x as pairs.
template <int compute>
DEVICE void x_pairs(const Tensor& x, const FewRows& p, long at, uint (&pairs)[8]) {
  if (p.x_is_plain != 0) {
    const uint4* from = reinterpret_cast<const uint4*>(x.as<ushort>() + at);
    const uint4 low = from[0], high = from[1];
    pairs[0] = low.x, pairs[1] = low.y, pairs[2] = low.z, pairs[3] = low.w;
    pairs[4] = high.x, pairs[5] = high.y, pairs[6] = high.z, pairs[7] = high.w;
    return;
  }
  UNROLL for (int i = 0; i < 8; ++i) {
    pairs[i] = pack_pair<compute>(get(x, at + 2 * i * p.x_col), get(x, at + (2 * i + 1) * p.x_col));
  }
}

template <int packing, int compute>
DEVICE void few_rows(const Weight& w, const Tensor& x, const Tensor& bias, const Tensor& y, const FewRows& p) {
  SHARED float shared[FEW_WARPS][FEW_OUTPUTS][FEW_ROWS + 1];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, group = lane / 4, part = lane % 4;
  const int n0 = static_cast<int>(blockIdx.y) * FEW_OUTPUTS;
  const Rows rows = rows_of_block<FEW_ROWS>(p);
  if (rows.first >= rows.end) return;  // all of the block alike
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  if (rows.expert >= 0) {
    const long before = static_cast<long>(rows.expert) * p.n;
    const long row[2] = {before + min(n0 + group, p.n - 1), before + min(n0 + group + 8, p.n - 1)};
    const bool has_row = rows.first + group < rows.end;
    const long x_row = x_at(p, has_row ? rows.first + group : rows.first);
    const int step = FEW_WARPS * FEW_UNITS;
    Brought<packing> now, next;
    now.bring(w, row, warp * FEW_UNITS + part, p.k);
    for (int first = warp * FEW_UNITS; first * 32 < p.k; first += step) {
      const int unit = first + part;
      next.bring(w, row, unit + step, p.k);
      UNROLL for (int h = 0; h < 2; ++h) {
        uint a[2][8] = {}, b[8] = {};
        const int column = column_of<packing>(unit, h);
        if (column < p.k) {
          if (has_row) x_pairs<compute>(x, p, x_row + column * p.x_col, b);
          UNROLL for (int r = 0; r < 2; ++r) {
            float values[16];
            now.half(w, row, r, unit, h, values);
            UNROLL for (int i = 0; i < 8; ++i) a[r][i] = pack_pair<compute>(values[2 * i], values[2 * i + 1]);
          }
        }
        UNROLL for (int i = 0; i < 8; i += 2) {
          const uint of_w[4] = {a[0][i], a[1][i], a[0][i + 1], a[1][i + 1]}, of_x[2] = {b[i], b[i + 1]};
          if constexpr (compute == BF16) mma_bf16(sums, of_w, of_x);
          else mma_f16(sums, of_w, of_x);
        }
      }
      now = next;
    }
  }
  UNROLL for (int i = 0; i < 4; ++i) shared[warp][group + i / 2 * 8][2 * part + i % 2] = sums[i];
  __syncthreads();
  if (thread >= FEW_OUTPUTS * FEW_ROWS) return;
  const int output = thread % FEW_OUTPUTS, i = thread / FEW_OUTPUTS;
  float sum = 0.0f;
  UNROLL for (int from = 0; from < FEW_WARPS; ++from) sum += shared[from][output][i];
  finish(bias, y, p, rows, rows.first + i, n0 + output, sum);
}

#define FEW(packing)                                                                                      \
  KERNEL_BOUNDED(few_bf16_##packing, 256, 2)(FEW_ARGUMENTS) { few_rows<packing, BF16>(w, x, bias, y, p); } \
  KERNEL_BOUNDED(few_f16_##packing, 256, 2)(FEW_ARGUMENTS) { few_rows<packing, F16>(w, x, bias, y, p); }
EACH_PACKING_OF_BLOCKS(FEW)
EACH_PACKING_OF_PLANES(FEW)
