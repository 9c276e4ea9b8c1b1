// adamw whose moments are codes of 8 bits. A warp has 256 elements, which share a largest moment: a lane has four at
// 4 lane and four 128 behind, whose moments are fp32 in registers alone.
#include "backends/cuda/cu/dense.cuh"

CONSTANT int BLOCK = 256;
CONSTANT int CODES = 256;

// The nearest of 256 rising codes, of two as near the smaller; `middles` lie between neighbours.
DEVICE uint nearest(const float* middles, float x) {
  int low = 0;
  UNROLL for (int step = CODES / 2; step > 0; step /= 2) {
    if (x > middles[low + step - 1]) low += step;
  }
  return static_cast<uint>(low);
}

// Eight codes of this lane, four in a word; those beyond `count` are 0.
DEVICE void load_codes(const uchar* at, int lane, int count, bool aligned, uint (&codes)[2]) {
  UNROLL for (int half = 0; half < 2; ++half) {
    const int first = half * 128 + lane * 4;
    codes[half] = 0;
    if (aligned) {
      codes[half] = *reinterpret_cast<const uint*>(at + first);
    } else {
      UNROLL for (int i = 0; i < 4; ++i) {
        if (first + i < count) codes[half] |= static_cast<uint>(at[first + i]) << (8 * i);
      }
    }
  }
}
DEVICE void store_codes(uchar* at, int lane, int count, bool aligned, const uint (&codes)[2]) {
  UNROLL for (int half = 0; half < 2; ++half) {
    const int first = half * 128 + lane * 4;
    if (aligned) {
      *reinterpret_cast<uint*>(at + first) = codes[half];
    } else {
      UNROLL for (int i = 0; i < 4; ++i) {
        if (first + i < count) at[first + i] = static_cast<uchar>(codes[half] >> (8 * i));
      }
    }
  }
}
DEVICE uint code_of(const uint (&codes)[2], int i) { return codes[i / 4] >> (i % 4 * 8) & 255u; }

DEVICE Floats load_block(const Tensor& tensor, long begin, int lane, int count, bool aligned) {
  const long first = lane * 4, second = first + 128;
  if (aligned) return floats_of(tensor.dtype, load_fours(tensor, begin + first, begin + second));
  Floats x;
  UNROLL for (int i = 0; i < W; ++i) {
    const long at = (i < 4 ? first : second) + i % 4;
    x[i] = at < count ? get(tensor, begin + at) : 0.0f;
  }
  return x;
}
DEVICE void store_block(const Tensor& tensor, long begin, int lane, int count, bool aligned, const Floats& x) {
  const long first = lane * 4, second = first + 128;
  if (aligned) return store_fours(tensor, begin + first, begin + second, x);
  UNROLL for (int i = 0; i < W; ++i) {
    const long at = (i < 4 ? first : second) + i % 4;
    if (at < count) put(tensor, begin + at, x[i]);
  }
}

struct Adamw8bit {
  Tensor param;
  uchar *m, *v;
  float *m_max, *v_max;
  Tensor grad;
  const float *m_codes, *v_codes, *hyper;
  long elements;
  long aligned;  // 1: every block but a last, shorter one may be moved by 16 bytes
};

KERNEL_BOUNDED(adamw_8bit, 256, 4)(Adamw8bit a) {
  SHARED float m_codes[CODES], v_codes[CODES], m_middles[CODES], v_middles[CODES];
  const int code = threadIdx.x, beyond = code < CODES - 1 ? code + 1 : code;
  m_codes[code] = a.m_codes[code];
  v_codes[code] = a.v_codes[code];
  m_middles[code] = 0.5f * (a.m_codes[code] + a.m_codes[beyond]);
  v_middles[code] = 0.5f * (a.v_codes[code] + a.v_codes[beyond]);
  __syncthreads();
  const float* const h = a.hyper;
  const float lr = h[0], beta1 = h[1], beta2 = h[2], rest1 = h[3], rest2 = h[4], eps = h[5], keep = 1.0f - lr * h[6];
  const float correction1 = h[7], correction2 = h[8], factor = h[9];
  const Tensor params = {a.param.at, F32, 0};
  const int lane = threadIdx.x % 32;
  const long blocks = (a.elements + BLOCK - 1) / BLOCK, step = static_cast<long>(gridDim.x) * 8;
  for (long block = static_cast<long>(blockIdx.x) * 8 + threadIdx.x / 32; block < blocks; block += step) {
    const long begin = block * BLOCK, left = a.elements - begin;
    const int count = static_cast<int>(left < BLOCK ? left : BLOCK);
    const bool aligned = a.aligned != 0 && count == BLOCK;
    const float m_was = a.m_max[block], v_was = a.v_max[block];
    uint m[2], v[2];
    load_codes(a.m + begin, lane, count, aligned, m);
    load_codes(a.v + begin, lane, count, aligned, v);
    const Floats grad = load_block(a.grad, begin, lane, count, aligned);
    Floats param = load_block(params, begin, lane, count, aligned), mean, square;
    float m_most = 0.0f, v_most = 0.0f;
    UNROLL for (int i = 0; i < W; ++i) {
      const float g = grad[i] * factor;
      mean[i] = beta1 * (m_codes[code_of(m, i)] * m_was) + rest1 * g;
      square[i] = beta2 * (v_codes[code_of(v, i)] * v_was) + rest2 * g * g;
      param[i] = param[i] * keep - lr * (mean[i] / correction1) / (sqrtf(square[i] / correction2) + eps);
      const bool own = i / 4 * 128 + lane * 4 + i % 4 < count;
      m_most = fmaxf(m_most, own ? fabsf(mean[i]) : 0.0f);
      v_most = fmaxf(v_most, own ? fabsf(square[i]) : 0.0f);
    }
    store_block(params, begin, lane, count, aligned, param);
    m_most = warp_max(m_most);
    v_most = warp_max(v_most);
    m[0] = m[1] = v[0] = v[1] = 0;
    UNROLL for (int i = 0; i < W; ++i) {
      m[i / 4] |= nearest(m_middles, m_most > 0.0f ? mean[i] / m_most : 0.0f) << (i % 4 * 8);
      v[i / 4] |= nearest(v_middles, v_most > 0.0f ? square[i] / v_most : 0.0f) << (i % 4 * 8);
    }
    store_codes(a.m + begin, lane, count, aligned, m);
    store_codes(a.v + begin, lane, count, aligned, v);
    if (lane == 0) {
      a.m_max[block] = m_most;
      a.v_max[block] = v_most;
    }
  }
}
