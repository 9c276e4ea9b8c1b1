// Few rows of x by a quantised weight [n, k], whose numbers are expanded where they're multiplied, so that it's read
// once and as it is stored. Up to 8 rows of x go together. Which lane adds what depends on n and k alone: a row's bits
// are the same whatever there is beside it.
#include "backends/cuda/cu/packing.cuh"
#include "backends/cuda/cu/tensor_cores.cuh"

// As in few_rows.cpp.
struct FewRows {
  long x_row, x_sub, x_col;
  long y_row, y_sub, y_col;
  long bias_step, bias_expert;
  const int* tiles;  // of experts' rows: first, end, expert (-1: none), 0; null: one weight has all rows
  int m, n, k;       // n: of one expert
  int parts;         // rows are [m / parts, parts]
  int x_is_plain;    // x has the dtype that products are computed in, and rows of whole 16 bytes
  int reserved;
};
#define FEW_ARGUMENTS Weight w, Tensor x, Tensor bias, Tensor y, FewRows p
#define FEW_WARPS 8
#define FEW_ROWS 8       // of x
#define FEW_OUTPUTS 16   // of a block
#define FEW_UNITS 4      // that neighbouring lanes take, of 32 columns

struct Rows {
  int first, end, expert;
};
DEVICE Rows rows_of_block(const FewRows& p) {
  const int i = static_cast<int>(blockIdx.x);
  if (p.tiles == nullptr) return {i * FEW_ROWS, min(i * FEW_ROWS + FEW_ROWS, p.m), 0};
  return {p.tiles[4 * i], p.tiles[4 * i + 1], p.tiles[4 * i + 2]};
}
DEVICE long x_at(const FewRows& p, int row) {
  return p.parts == 1 ? row * p.x_row : row / p.parts * p.x_row + row % p.parts * p.x_sub;
}
DEVICE void finish(const Tensor& bias, const Tensor& y, const FewRows& p, const Rows& rows, int row, int column,
                   float sum) {
  if (row >= rows.end || column >= p.n) return;
  const long at = (p.parts == 1 ? row * p.y_row : row / p.parts * p.y_row + row % p.parts * p.y_sub) + column * p.y_col;
  if (rows.expert < 0) {
    if (y.adds == 0) put(y, at, 0.0f);
    return;
  }
  if (bias.here()) sum += get(bias, rows.expert * p.bias_expert + column * p.bias_step);
  put_or_add(y, at, sum);
}

// ---------------------------------------------------------------- in 16 bits, by the matrix units
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

// Of two rows of the weight what a unit holds, brought ahead of its arithmetic where it lies in blocks.
template <int packing>
struct Brought {
  RawUnit raw[2];
  DEVICE_MEMBER void bring(const Weight& w, const long (&row)[2], int unit, int columns) {
    if constexpr (is_of_blocks<packing>()) {
      if (unit * 32 >= columns) return;
      UNROLL for (int r = 0; r < 2; ++r) {
        load_unit<packing>(block_at<packing>(w, row[r], unit), unit % units_of_block<packing>(), raw[r]);
      }
    }
  }
  DEVICE_MEMBER void half(const Weight& w, const long (&row)[2], int r, int unit, int h, float (&values)[16]) const {
    if constexpr (is_of_blocks<packing>()) {
      values_of<packing>(parts_of_unit<packing>(raw[r], unit % units_of_block<packing>(), h), values);
    } else {
      weight_16<packing>(w, row[r], column_of<packing>(unit, h), values);
    }
  }
};

template <int packing, int compute>
DEVICE void few_rows(const Weight& w, const Tensor& x, const Tensor& bias, const Tensor& y, const FewRows& p) {
  SHARED float shared[FEW_WARPS][FEW_OUTPUTS][FEW_ROWS + 1];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, group = lane / 4, part = lane % 4;
  const int n0 = static_cast<int>(blockIdx.y) * FEW_OUTPUTS;
  const Rows rows = rows_of_block(p);
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

// ---------------------------------------------------------------- in fp32
// A warp has an output; its lanes share the sum.
template <int packing>
DEVICE void few_rows_f32(const Weight& w, const Tensor& x, const Tensor& bias, const Tensor& y, const FewRows& p) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int output = static_cast<int>(blockIdx.y) * FEW_WARPS + warp;
  const Rows rows = rows_of_block(p);
  if (rows.first >= rows.end || output >= p.n) return;  // all of the warp alike
  float sums[FEW_ROWS] = {};
  for (int step = lane; rows.expert >= 0 && step * 16 < p.k; step += 32) {
    float values[16];
    weight_16<packing>(w, static_cast<long>(rows.expert) * p.n + output, step * 16, values);
    UNROLL for (int i = 0; i < FEW_ROWS; ++i) {
      if (rows.first + i >= rows.end) continue;
      const long at = x_at(p, rows.first + i) + step * 16 * p.x_col;
      if (p.x_is_plain != 0) {
        const float4* from = reinterpret_cast<const float4*>(x.as<float>() + at);
        UNROLL for (int c = 0; c < 4; ++c) {
          const float4 four = from[c];
          sums[i] = fmaf(four.x, values[4 * c], sums[i]);
          sums[i] = fmaf(four.y, values[4 * c + 1], sums[i]);
          sums[i] = fmaf(four.z, values[4 * c + 2], sums[i]);
          sums[i] = fmaf(four.w, values[4 * c + 3], sums[i]);
        }
      } else {
        UNROLL for (int c = 0; c < 16; ++c) sums[i] = fmaf(get(x, at + c * p.x_col), values[c], sums[i]);
      }
    }
  }
  float own = 0.0f;
  UNROLL for (int i = 0; i < FEW_ROWS; ++i) {
    const float sum = warp_sum(sums[i]);
    if (lane == i) own = sum;
  }
  if (lane < FEW_ROWS) finish(bias, y, p, rows, rows.first + lane, output, own);
}

#define FEW(packing)                                                                                                \
  KERNEL_BOUNDED(few_bf16_##packing, 256, 2)(FEW_ARGUMENTS) { few_rows<packing, BF16>(w, x, bias, y, p); }           \
  KERNEL_BOUNDED(few_f16_##packing, 256, 2)(FEW_ARGUMENTS) { few_rows<packing, F16>(w, x, bias, y, p); }             \
  KERNEL_BOUNDED(few_f32_##packing, 256, 2)(FEW_ARGUMENTS) { few_rows_f32<packing>(w, x, bias, y, p); }
EACH_PACKING_OF_BLOCKS(FEW)
EACH_PACKING_OF_PLANES(FEW)
