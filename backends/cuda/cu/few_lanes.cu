// Few rows in fp32, and in x15: each warp has two outputs, of which its lanes share the sum, a unit of 32 columns each
// in turn. The rows of x are laid out in shared memory first as lanes read them: by halves of units.
#include "backends/cuda/cu/few_rows.cuh"

DEVICE int units_of(const FewRows& p) { return (p.k + 31) / 32; }
// Where the 16 columns of a half begin, in pieces of 16 columns.
DEVICE int piece_of(int row, int h, int unit, int units) { return (row * 2 + h) * units + unit; }

// What a warp adds up: step(brought, rows of w, unit, half, sums) for each that its lanes have, then the sums of all.
template <int packing, int rows, typename Step>
DEVICE void add_up(const Weight& w, const Tensor& bias, const Tensor& y, const FewRows& p, const Rows& of,
                   Step&& step) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, units = units_of(p);
  const int output = static_cast<int>(blockIdx.y) * FEW_OUTPUTS + 2 * warp;
  if (output >= p.n) return;  // all of the warp alike
  const long before = static_cast<long>(of.expert) * p.n;
  const long row[2] = {before + output, before + min(output + 1, p.n - 1)};
  float sums[2][rows] = {};
  if (of.expert >= 0) {
    Brought<packing> now, next;
    now.bring(w, row, lane, p.k);
    for (int unit = lane; unit < units; unit += 32) {
      next.bring(w, row, unit + 32, p.k);
      UNROLL for (int h = 0; h < 2; ++h) {
        if (column_of<packing>(unit, h) < p.k) step(now, row, unit, h, sums);
      }
      now = next;
    }
  }
  float own = 0.0f;  // lane r rows + i has that of output r and row i
  UNROLL for (int s = 0; s < 2 * rows; ++s) {
    const float sum = warp_sum(sums[s / rows][s % rows]);
    if (lane == s) own = sum;
  }
  if (lane < 2 * rows) finish(bias, y, p, of, of.first + lane % rows, output + lane / rows, own);
}

// ---------------------------------------------------------------- fp32
template <int packing, int rows>
DEVICE void few_f32(const Weight& w, const Tensor& x, const Tensor& bias, const Tensor& y, const FewRows& p) {
  DYNAMIC_SHARED(float4, fours);  // [4 of a half, row, half, unit]
  const Rows of = rows_of_block<rows>(p);
  if (of.first >= of.end) return;  // all of the block alike
  const int units = units_of(p), pieces = rows * 2 * units;
  for (int e = threadIdx.x; of.expert >= 0 && e < rows * units * 8; e += blockDim.x) {
    const int i = e / (units * 8), column = e % (units * 8) * 4;
    float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
    if (of.first + i < of.end && column < p.k) {
      const long at = x_at(p, of.first + i) + column * p.x_col;
      if (p.x_is_plain != 0) {
        four = *reinterpret_cast<const float4*>(x.as<float>() + at);
      } else {
        four = {get(x, at), get(x, at + p.x_col), get(x, at + 2 * p.x_col), get(x, at + 3 * p.x_col)};
      }
    }
    fours[column % 16 / 4 * pieces + piece_of(i, half_of<packing>(column), unit_of<packing>(column), units)] = four;
  }
  __syncthreads();
  add_up<packing, rows>(
      w, bias, y, p, of,
      [&](const Brought<packing>& now, const long(&row)[2], int unit, int h, float(&sums)[2][rows]) {
        float values[2][16];
        UNROLL for (int r = 0; r < 2; ++r) now.half(w, row, r, unit, h, values[r]);
        UNROLL for (int i = 0; i < rows; ++i) {
          UNROLL for (int c = 0; c < 4; ++c) {
            const float4 four = fours[c * pieces + piece_of(i, h, unit, units)];
            UNROLL for (int r = 0; r < 2; ++r) {
              sums[r][i] = fmaf(four.x, values[r][4 * c], sums[r][i]);
              sums[r][i] = fmaf(four.y, values[r][4 * c + 1], sums[r][i]);
              sums[r][i] = fmaf(four.z, values[r][4 * c + 2], sums[r][i]);
              sums[r][i] = fmaf(four.w, values[r][4 * c + 3], sums[r][i]);
            }
          }
        }
      });
}

// ---------------------------------------------------------------- x15 (ops/matmul_q.h)
// A row of x in shared memory: q = 128 high + low in bytes, the scale of each 32, the sum of q of each 16.
struct X15 {
  uint4* high;  // [rows, half, unit]
  uint4* low;
  float* scales;  // [rows, k / 32]
  int* sums;      // [rows, k / 16]
};

// 8 columns of a thread, whose neighbours of four have one scale.
template <int packing>
DEVICE void give_x15(const X15& to, const float (&values)[8], int i, int column, int units, bool there) {
  const float infinite = __int_as_float(0x7f800000);
  float most = 0.0f;
  UNROLL for (int c = 0; c < 8; ++c) most = fmaxf(most, fabsf(values[c]) < infinite ? fabsf(values[c]) : infinite);
  most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
  most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
  const bool finite = most < infinite, counts = finite && most >= 7.8886090522101181e-31f;  // 2^-100
  const float factor = counts ? 16256.0f / most : 0.0f;
  uint high[2] = {}, low[2] = {};
  int sum = 0;
  UNROLL for (int c = 0; c < 8; ++c) {
    const int q = counts ? __float2int_rn(values[c] * factor) : 0, above = (q + 64) >> 7;
    high[c / 4] |= (static_cast<uint>(above) & 255u) << (c % 4 * 8);
    low[c / 4] |= (static_cast<uint>(q - above * 128) & 255u) << (c % 4 * 8);
    sum += q;
  }
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  if (!there) return;
  const int piece = piece_of(i, half_of<packing>(column), unit_of<packing>(column), units);
  const int place = 2 * piece + column % 16 / 8;
  reinterpret_cast<Two*>(to.high)[place] = {{high[0], high[1]}};
  reinterpret_cast<Two*>(to.low)[place] = {{low[0], low[1]}};
  const float scale = finite ? (counts ? most / 16256.0f : 0.0f) : __int_as_float(0x7fc00000);
  if (column % 32 == 0) to.scales[i * units + column / 32] = scale;
  if (column % 16 == 0) to.sums[i * 2 * units + column / 16] = sum;
}

DEVICE int dot_16(const uint4& a, const uint (&b)[4]) {
  int sum = __dp4a(static_cast<int>(a.x), static_cast<int>(b[0]), 0);
  sum = __dp4a(static_cast<int>(a.y), static_cast<int>(b[1]), sum);
  sum = __dp4a(static_cast<int>(a.z), static_cast<int>(b[2]), sum);
  return __dp4a(static_cast<int>(a.w), static_cast<int>(b[3]), sum);
}

template <int packing, int rows>
DEVICE void few_x15(const Weight& w, const Tensor& x, const Tensor& bias, const Tensor& y, const FewRows& p) {
  DYNAMIC_SHARED(uint4, room);
  const Rows of = rows_of_block<rows>(p);
  if (of.first >= of.end) return;  // all of the block alike
  const int units = units_of(p), pieces = rows * 2 * units;
  float* const scales = reinterpret_cast<float*>(room + 2 * pieces);
  const X15 laid = {room, room + pieces, scales, reinterpret_cast<int*>(scales + rows * units)};
  const int eights = rows * units * 4;
  for (int first = threadIdx.x / 32 * 32; first < eights; first += blockDim.x) {
    const int e = first + static_cast<int>(threadIdx.x) % 32, i = e / (units * 4), column = e % (units * 4) * 8;
    float values[8] = {};
    if (e < eights && of.first + i < of.end) {
      const long at = x_at(p, of.first + i) + column * p.x_col;
      UNROLL for (int c = 0; c < 8; ++c) values[c] = get(x, at + c * p.x_col);
    }
    give_x15<packing>(laid, values, i, column, units, e < eights);
  }
  __syncthreads();
  constexpr bool is_signed = less_of<packing>() == 128.0f;
  constexpr int less = is_signed ? 0 : static_cast<int>(less_of<packing>());
  add_up<packing, rows>(
      w, bias, y, p, of,
      [&](const Brought<packing>& now, const long(&)[2], int unit, int h, float(&sums)[2][rows]) {
        const int column = column_of<packing>(unit, h);
        Parts parts[2];
        UNROLL for (int r = 0; r < 2; ++r) {
          parts[r] = parts_of_unit<packing>(now.raw[r], unit % units_of_block<packing>(), h);
          if (is_signed) {
            UNROLL for (int c = 0; c < 4; ++c) parts[r].codes[c] ^= 0x80808080u;
          }
        }
        UNROLL for (int i = 0; i < rows; ++i) {
          const int piece = piece_of(i, h, unit, units), sum = laid.sums[i * 2 * units + column / 16];
          const uint4 high = laid.high[piece], low = laid.low[piece];
          const float scale = laid.scales[i * units + column / 32];
          UNROLL for (int r = 0; r < 2; ++r) {
            const int dot = dot_16(high, parts[r].codes) * 128 + dot_16(low, parts[r].codes) - less * sum;
            const float least = parts[r].minimum * static_cast<float>(sum);
            sums[r][i] = fmaf(scale, fmaf(parts[r].scale, static_cast<float>(dot), least), sums[r][i]);
          }
        }
      });
}

#define FEW_F32(packing)                                                                                      \
  KERNEL_BOUNDED(few_f32_1_##packing, 256, 2)(FEW_ARGUMENTS) { few_f32<packing, 1>(w, x, bias, y, p); }        \
  KERNEL_BOUNDED(few_f32_2_##packing, 256, 2)(FEW_ARGUMENTS) { few_f32<packing, 2>(w, x, bias, y, p); }        \
  KERNEL_BOUNDED(few_f32_4_##packing, 256, 2)(FEW_ARGUMENTS) { few_f32<packing, 4>(w, x, bias, y, p); }
#define FEW_X15(packing)                                                                                      \
  KERNEL_BOUNDED(few_x15_1_##packing, 256, 2)(FEW_ARGUMENTS) { few_x15<packing, 1>(w, x, bias, y, p); }        \
  KERNEL_BOUNDED(few_x15_2_##packing, 256, 2)(FEW_ARGUMENTS) { few_x15<packing, 2>(w, x, bias, y, p); }        \
  KERNEL_BOUNDED(few_x15_4_##packing, 256, 2)(FEW_ARGUMENTS) { few_x15<packing, 4>(w, x, bias, y, p); }
EACH_PACKING_OF_BLOCKS(FEW_F32)
FEW_F32(ROW_INT8)
FEW_F32(F8_BLOCK)
FEW_F32(NF4)
FEW_F32(FP4)
EACH_PACKING_OF_BLOCKS(FEW_X15)
FEW_X15(ROW_INT8)
