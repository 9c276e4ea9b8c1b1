// Few rows in fp32 by weights whose words lie across their rows: neighbouring lanes have neighbouring outputs, so that
// they read neighbouring words, and the warps of a block share the sums.
#include "backends/cuda/cu/few_rows.cuh"

#define ACROSS_OUTPUTS 32  // of a block

template <int packing, int rows>
DEVICE void few_across(const Weight& w, const Tensor& x, const Tensor& bias, const Tensor& y, const FewRows& p) {
  DYNAMIC_SHARED(float, of_x);  // [rows, k]
  SHARED float shared[FEW_WARPS][rows][ACROSS_OUTPUTS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n0 = static_cast<int>(blockIdx.y) * ACROSS_OUTPUTS;
  const Rows of = rows_of_block<rows>(p);
  if (of.first >= of.end) return;  // all of the block alike
  for (int e = threadIdx.x; of.expert >= 0 && e < rows * p.k; e += blockDim.x) {
    const int i = e / p.k, column = e % p.k;
    of_x[e] = of.first + i < of.end ? get(x, x_at(p, of.first + i) + column * p.x_col) : 0.0f;
  }
  __syncthreads();
  const long row = static_cast<long>(of.expert) * p.n + min(n0 + lane, p.n - 1);
  float sums[rows] = {};
  for (int column = warp * 16; of.expert >= 0 && column < p.k; column += FEW_WARPS * 16) {
    float values[16];
    weight_16<packing>(w, row, column, values);
    UNROLL for (int i = 0; i < rows; ++i) {
      const float4* const fours = reinterpret_cast<const float4*>(of_x + i * p.k + column);
      UNROLL for (int c = 0; c < 4; ++c) {
        const float4 four = fours[c];
        sums[i] = fmaf(four.x, values[4 * c], sums[i]);
        sums[i] = fmaf(four.y, values[4 * c + 1], sums[i]);
        sums[i] = fmaf(four.z, values[4 * c + 2], sums[i]);
        sums[i] = fmaf(four.w, values[4 * c + 3], sums[i]);
      }
    }
  }
  UNROLL for (int i = 0; i < rows; ++i) shared[warp][i][lane] = sums[i];
  __syncthreads();
  const int i = threadIdx.x / ACROSS_OUTPUTS, output = threadIdx.x % ACROSS_OUTPUTS;
  if (i >= rows) return;
  float sum = 0.0f;
  UNROLL for (int from = 0; from < FEW_WARPS; ++from) sum += shared[from][i][output];
  finish(bias, y, p, of, of.first + i, n0 + output, sum);
}

#define FEW_ACROSS(packing)                                                                               \
  KERNEL_BOUNDED(few_f32_1_##packing, 256, 2)(FEW_ARGUMENTS) { few_across<packing, 1>(w, x, bias, y, p); } \
  KERNEL_BOUNDED(few_f32_2_##packing, 256, 2)(FEW_ARGUMENTS) { few_across<packing, 2>(w, x, bias, y, p); } \
  KERNEL_BOUNDED(few_f32_4_##packing, 256, 2)(FEW_ARGUMENTS) { few_across<packing, 4>(w, x, bias, y, p); }
FEW_ACROSS(AWQ_INT4)
FEW_ACROSS(GPTQ_INT4)
