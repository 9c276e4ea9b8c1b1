// qk_norm_rope and its backward. `lanes` threads of a warp have a head of a row together, a chunk of features each, and
// keep it in registers; with ANY two chunks each, as heads may be wider then.
#include "backends/cuda/cu/rotate.cuh"

struct QkNormSizes {
  HeadSizes head;
  long x[3], weight, y[3], rstd[2];
  float eps, weight_offset;
  int lanes;  // a power of two, 32 at most
};
struct QkNormBackwardSizes {
  HeadSizes head;
  long units_of_block;  // heads of rows
  long dy[3], x[3], weight, rstd[2], dx[3];
  float weight_offset;
  int lanes;
};

template <int type>
struct Kept {
  static constexpr int chunks = type == ANY ? 2 : 1;
};
CONSTANT int WARPS = 4;             // of a block
CONSTANT int MOST_FEATURES = 1024;  // of a head: 64 chunks of 16

// A head of a row.
struct Unit {
  long row, head;
};
DEVICE Unit unit_of(long unit, const HeadSizes& s) {
  if ((unit >> 32) != 0) return {unit / s.heads, unit % s.heads};
  const uint at = static_cast<uint>(unit), heads = static_cast<uint>(s.heads);
  return {at / heads, at % heads};
}
DEVICE float lanes_sum(float value, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}
// A chunk, without features where the lane has none.
DEVICE Chunk chunk_of_lane(int lane, int k, int lanes, bool active, const HeadSizes& s) {
  const int item = lane + k * lanes;
  return active && item < chunks_of(s) ? chunk_of(item, s) : Chunk{};
}
// The weight, which is wide where the other tensors are, but of a dtype of its own.
template <int type>
DEVICE Pairs factors_of(const Tensor& weight, long stride, float offset, const Chunk& chunk) {
  Pairs factors = {floats_of(offset), floats_of(offset)};
  if (!weight.here()) return factors;
  if constexpr (type == ANY) {
    factors = factors + loaded_pairs<ANY>(load_pairs<ANY>(weight, 0, stride, chunk));
  } else {
    if (chunk.in_first > 0) factors.first = factors.first + fetch_wide<ANY>(weight, chunk.first);
    if (chunk.in_second > 0) factors.second = factors.second + fetch_wide<ANY>(weight, chunk.second);
  }
  return factors;
}

template <int type>
DEVICE void qk_norm_rope_heads(const Tensor& x, const Tensor& weight, const int* positions, const Tensor& cosines,
                               const Tensor& sines, const Tensor& y, float* rstd, const QkNormSizes& s) {
  begin_overlapped();
  constexpr int kept = Kept<type>::chunks;
  const int lane = threadIdx.x % s.lanes, groups = blockDim.x / s.lanes;
  const long index = static_cast<long>(blockIdx.x) * groups + threadIdx.x / s.lanes;
  const bool active = index < s.head.rows * s.head.heads;
  const Unit unit = unit_of(active ? index : 0, s.head);
  Chunk chunk[kept];
  RawPairs raw[kept];
  UNROLL for (int k = 0; k < kept; ++k) {
    chunk[k] = chunk_of_lane(lane, k, s.lanes, active, s.head);
    raw[k] = load_pairs<type>(x, unit.row * s.x[0] + unit.head * s.x[1], s.x[2], chunk[k]);
  }
  Pairs angles[kept];
  UNROLL for (int k = 0; k < kept; ++k) {
    angles[k] = load_angles<type>(positions, cosines, sines, unit.row, chunk[k], s.head);
  }
  Pairs value[kept];
  float squares = 0.0f;
  UNROLL for (int k = 0; k < kept; ++k) {
    value[k] = loaded_pairs<type>(raw[k]);
    squares += sum_of(value[k] * value[k]);
  }
  const float scale = 1.0f / sqrtf(lanes_sum(squares, s.lanes) / static_cast<float>(s.head.head_dim) + s.eps);
  if (rstd != nullptr && active && lane == 0) rstd[unit.row * s.rstd[0] + unit.head * s.rstd[1]] = scale;
  UNROLL for (int k = 0; k < kept; ++k) {
    value[k] = value[k] * scale * factors_of<type>(weight, s.weight, s.weight_offset, chunk[k]);
    turn(value[k], chunk[k], angles[k], s.head.interleaved, 1.0f);
    store_pairs<type>(y, unit.row * s.y[0] + unit.head * s.y[1], s.y[2], chunk[k], value[k]);
  }
}

#define QK_NORM_ROPE(name, type)                                                                       \
  KERNEL_BOUNDED(name, 128, 4)                                                                         \
  (Tensor x, Tensor weight, const int* positions, Tensor cosines, Tensor sines, Tensor y, float* rstd, \
   QkNormSizes s) {                                                                                    \
    qk_norm_rope_heads<type>(x, weight, positions, cosines, sines, y, rstd, s);                        \
  }
QK_NORM_ROPE(qk_norm_rope_f32, F32)
QK_NORM_ROPE(qk_norm_rope_f16, F16)
QK_NORM_ROPE(qk_norm_rope_bf16, BF16)
QK_NORM_ROPE(qk_norm_rope_any, ANY)

// partial[block, head_dim] = the sums of all lanes that have the same chunk: of a warp's groups, then of warps in
// order.
template <int type>
DEVICE void sum_over_block(Pairs (&sums)[Kept<type>::chunks], int lane, int lanes, float* partial, const HeadSizes& s) {
  SHARED float of_warps[WARPS][MOST_FEATURES];
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  UNROLL for (int k = 0; k < Kept<type>::chunks; ++k) {
    const Chunk chunk = chunk_of_lane(lane, k, lanes, true, s);
    UNROLL for (int i = 0; i < W; ++i) {
      for (int step = 16; step >= lanes; step /= 2) {
        sums[k].first[i] += __shfl_xor_sync(0xffffffffu, sums[k].first[i], step);
        sums[k].second[i] += __shfl_xor_sync(0xffffffffu, sums[k].second[i], step);
      }
      if (i < chunk.in_first) of_warps[warp][chunk.first + i] = sums[k].first[i];
      if (i < chunk.in_second) of_warps[warp][chunk.second + i] = sums[k].second[i];
    }
  }
  __syncthreads();
  for (int feature = threadIdx.x; feature < s.head_dim; feature += blockDim.x) {
    float sum = of_warps[0][feature];
    for (int i = 1; i < warps; ++i) sum += of_warps[i][feature];
    partial[static_cast<long>(blockIdx.x) * s.head_dim + feature] = sum;
  }
}

// dn = rope(dy, inverse), then the gradient of the norm of each head. A block has some heads of rows; `partial`
// [blocks, head_dim] gets their sums of dn x rstd, unless it is null. dx may lie where dy does.
template <int type>
DEVICE void qk_norm_rope_gradients(const Tensor& dy, const Tensor& x, const Tensor& weight, const float* rstd,
                                   const int* positions, const Tensor& cosines, const Tensor& sines, const Tensor& dx,
                                   float* partial, const QkNormBackwardSizes& s) {
  begin_overlapped();
  constexpr int kept = Kept<type>::chunks;
  const int lane = threadIdx.x % s.lanes, group = threadIdx.x / s.lanes, groups = blockDim.x / s.lanes;
  const long units = s.head.rows * s.head.heads, begin = blockIdx.x * s.units_of_block;
  const long end = begin + s.units_of_block < units ? begin + s.units_of_block : units;
  Pairs factors[kept], sums[kept];
  UNROLL for (int k = 0; k < kept; ++k) {
    const Chunk chunk = chunk_of_lane(lane, k, s.lanes, true, s.head);
    factors[k] = factors_of<type>(weight, s.weight, s.weight_offset, chunk);
    sums[k] = {floats_of(0.0f), floats_of(0.0f)};
  }
  for (long first = begin; first < end; first += groups) {
    const bool active = first + group < end;
    const Unit unit = unit_of(active ? first + group : begin, s.head);
    Chunk chunk[kept];
    RawPairs of_dy[kept], of_x[kept];
    Pairs angles[kept];
    UNROLL for (int k = 0; k < kept; ++k) {
      chunk[k] = chunk_of_lane(lane, k, s.lanes, active, s.head);
      of_dy[k] = load_pairs<type>(dy, unit.row * s.dy[0] + unit.head * s.dy[1], s.dy[2], chunk[k]);
      of_x[k] = load_pairs<type>(x, unit.row * s.x[0] + unit.head * s.x[1], s.x[2], chunk[k]);
      angles[k] = load_angles<type>(positions, cosines, sines, unit.row, chunk[k], s.head);
    }
    const float scale = rstd[unit.row * s.rstd[0] + unit.head * s.rstd[1]];
    Pairs dn[kept];
    float products = 0.0f;
    UNROLL for (int k = 0; k < kept; ++k) {
      const Pairs value = loaded_pairs<type>(of_x[k]);
      dn[k] = loaded_pairs<type>(of_dy[k]);
      turn(dn[k], chunk[k], angles[k], s.head.interleaved, -1.0f);
      products += sum_of(dn[k] * factors[k] * value);
      sums[k] = sums[k] + dn[k] * (value * scale);
    }
    const float mean = lanes_sum(products, s.lanes) / static_cast<float>(s.head.head_dim);
    const float along_x = scale * scale * mean;
    UNROLL for (int k = 0; k < kept; ++k) {
      const Pairs out = (dn[k] * factors[k] - loaded_pairs<type>(of_x[k]) * along_x) * scale;
      store_pairs<type>(dx, unit.row * s.dx[0] + unit.head * s.dx[1], s.dx[2], chunk[k], out);
    }
  }
  if (partial != nullptr) sum_over_block<type>(sums, lane, s.lanes, partial, s.head);
}

#define QK_NORM_ROPE_BACKWARD(name, type, blocks)                                                 \
  KERNEL_BOUNDED(name, 128, blocks)                                                               \
  (Tensor dy, Tensor x, Tensor weight, const float* rstd, const int* positions, Tensor cosines,   \
   Tensor sines, Tensor dx, float* partial, QkNormBackwardSizes s) {                              \
    qk_norm_rope_gradients<type>(dy, x, weight, rstd, positions, cosines, sines, dx, partial, s); \
  }
QK_NORM_ROPE_BACKWARD(qk_norm_rope_backward_f32, F32, 4)
QK_NORM_ROPE_BACKWARD(qk_norm_rope_backward_f16, F16, 4)
QK_NORM_ROPE_BACKWARD(qk_norm_rope_backward_bf16, BF16, 4)
QK_NORM_ROPE_BACKWARD(qk_norm_rope_backward_any, ANY, 2)
