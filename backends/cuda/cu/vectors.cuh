// W neighbouring elements at a time, as floats, from and to tensors of any stride and dtype.
#pragma once

#include "backends/cuda/cu/common.cuh"

// Elements of a vector: 16 bytes of a 16-bit dtype.
CONSTANT int W = 8;
// In place of a dtype as a template's parameter: the tensor says at launch which it is.
CONSTANT int ANY = -1;

template <int type>
DEVICE int dtype_of(const Tensor& tensor) {
  return type == ANY ? tensor.dtype : type;
}

// ---------------------------------------------------------------- arithmetic
struct Floats {
  float at[W];
  DEVICE_MEMBER float& operator[](int i) { return at[i]; }
  DEVICE_MEMBER float operator[](int i) const { return at[i]; }
};
DEVICE Floats floats_of(float value) {
  Floats out;
  UNROLL for (int i = 0; i < W; ++i) out[i] = value;
  return out;
}
DEVICE Floats operator+(const Floats& a, const Floats& b) {
  Floats out;
  UNROLL for (int i = 0; i < W; ++i) out[i] = a[i] + b[i];
  return out;
}
DEVICE Floats operator-(const Floats& a, const Floats& b) {
  Floats out;
  UNROLL for (int i = 0; i < W; ++i) out[i] = a[i] - b[i];
  return out;
}
DEVICE Floats operator*(const Floats& a, const Floats& b) {
  Floats out;
  UNROLL for (int i = 0; i < W; ++i) out[i] = a[i] * b[i];
  return out;
}
DEVICE Floats operator+(const Floats& a, float b) { return a + floats_of(b); }
DEVICE Floats operator-(const Floats& a, float b) { return a - floats_of(b); }
DEVICE Floats operator*(const Floats& a, float b) { return a * floats_of(b); }
// The elements' sum, in pairs.
DEVICE float sum_of(const Floats& x) {
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
// The first `count` elements, and 0 behind them.
DEVICE Floats first_of(const Floats& x, long count) {
  Floats out;
  UNROLL for (int i = 0; i < W; ++i) out[i] = i < count ? x[i] : 0.0f;
  return out;
}

// ---------------------------------------------------------------- 16 bytes at a time
struct alignas(16) Quad {
  uint x, y, z, w;
};
// From and to global memory, in one access each.
#ifdef __CUDACC__
DEVICE Quad load_quad(const void* at) {
  Quad quad;
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
               : "l"(at)
               : "memory");
  return quad;
}
DEVICE void store_quad(void* at, const Quad& quad) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(quad.x), "r"(quad.y), "r"(quad.z), "r"(quad.w)
               : "memory");
}
// Two floats to two neighbours of bf16, or else f16, the first in the low half.
DEVICE uint two_of_16_bits(int dtype, float low, float high) {
  uint bits;
  if (dtype == BF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  }
  return bits;
}
#else
DEVICE Quad load_quad(const void* at) { return *static_cast<const Quad*>(at); }
DEVICE void store_quad(void* at, const Quad& quad) { *static_cast<Quad*>(at) = quad; }
DEVICE uint two_of_16_bits(int dtype, float low, float high) {
  const ushort first = dtype == BF16 ? float_to_bf16(low) : float_to_f16(low);
  const ushort second = dtype == BF16 ? float_to_bf16(high) : float_to_f16(high);
  return static_cast<uint>(first) | static_cast<uint>(second) << 16;
}
#endif
// A vector as it lies in memory: `high` is of f32 alone. Kernels that load several before they convert one wait once.
struct Raw {
  Quad low, high;
};

// At an address that is a multiple of 16 bytes.
DEVICE Raw load_raw(int dtype, const uchar* at, long element) {
  if (dtype != F32) return {load_quad(at + element * 2), {}};
  return {load_quad(at + element * 4), load_quad(at + element * 4 + 16)};
}
DEVICE void store_raw(int dtype, uchar* at, long element, const Raw& raw) {
  if (dtype != F32) return store_quad(at + element * 2, raw.low);
  store_quad(at + element * 4, raw.low);
  store_quad(at + element * 4 + 16, raw.high);
}
DEVICE Floats floats_of(int dtype, const Raw& raw) {
  const uint words[W] = {raw.low.x,  raw.low.y,  raw.low.z,  raw.low.w,
                         raw.high.x, raw.high.y, raw.high.z, raw.high.w};
  Floats out;
  if (dtype == F32) {
    UNROLL for (int i = 0; i < W; ++i) out[i] = __uint_as_float(words[i]);
  } else if (dtype == BF16) {
    UNROLL for (int i = 0; i < W / 2; ++i) {
      out[2 * i] = __uint_as_float(words[i] << 16);
      out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  } else {
    UNROLL for (int i = 0; i < W / 2; ++i) {
      out[2 * i] = f16_to_float(static_cast<ushort>(words[i] & 0xffffu));
      out[2 * i + 1] = f16_to_float(static_cast<ushort>(words[i] >> 16));
    }
  }
  return out;
}
DEVICE Raw raw_of(int dtype, const Floats& x) {
  if (dtype == F32) {
    return {{__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])},
            {__float_as_uint(x[4]), __float_as_uint(x[5]), __float_as_uint(x[6]), __float_as_uint(x[7])}};
  }
  return {{two_of_16_bits(dtype, x[0], x[1]), two_of_16_bits(dtype, x[2], x[3]), two_of_16_bits(dtype, x[4], x[5]),
           two_of_16_bits(dtype, x[6], x[7])},
          {}};
}

// What values are once they have been kept in the dtype.
DEVICE Floats rounded(int dtype, const Floats& x) { return floats_of(dtype, raw_of(dtype, x)); }

// ---------------------------------------------------------------- tensors
// Where the host has seen that every vector is whole, dense and aligned (is_wide of rows.h).
template <int type>
DEVICE Floats fetch_wide(const Tensor& tensor, long element) {
  const int dtype = dtype_of<type>(tensor);
  return floats_of(dtype, load_raw(dtype, tensor.at, element));
}
template <int type>
DEVICE void spread_wide(const Tensor& tensor, long element, const Floats& value) {
  const int dtype = dtype_of<type>(tensor);
  store_raw(dtype, tensor.at, element, raw_of(dtype, value));
}

DEVICE bool is_wide(int dtype, const uchar* at, long element, long stride, long count) {
  const uchar* const address = at + element * (dtype == F32 ? 4 : 2);
  return stride == 1 && count >= W && (reinterpret_cast<ulong>(address) & 15u) == 0;
}
// W elements that lie `stride` apart; of those from `count` on 0, which are not read.
template <int type = ANY>
DEVICE Floats fetch(const Tensor& tensor, long element, long stride, long count) {
  const int dtype = dtype_of<type>(tensor);
  if (is_wide(dtype, tensor.at, element, stride, count)) return fetch_wide<type>(tensor, element);
  Floats out;
  UNROLL for (int i = 0; i < W; ++i) out[i] = i < count ? load_float(dtype, tensor.at, element + i * stride) : 0.0f;
  return out;
}
// Stores the first `count` of W elements, `stride` apart.
template <int type = ANY>
DEVICE void spread(const Tensor& tensor, long element, long stride, long count, const Floats& value) {
  const int dtype = dtype_of<type>(tensor);
  if (is_wide(dtype, tensor.at, element, stride, count)) return spread_wide<type>(tensor, element, value);
  UNROLL for (int i = 0; i < W; ++i) {
    if (i < count) store_float(dtype, tensor.at, element + i * stride, value[i]);
  }
}
// fp32 in memory of the workspace.
DEVICE Tensor floats_at(float* memory) { return {reinterpret_cast<uchar*>(memory), F32, 0}; }

// Vectors that are loaded now and converted later: wide ones of a known dtype, or with ANY whichever `count` elements.
template <int type>
DEVICE Raw load(const Tensor& tensor, long element, long stride, long count) {
  if constexpr (type == ANY) {
    return raw_of(F32, fetch(tensor, element, stride, count));
  } else {
    return count > 0 ? load_raw(type, tensor.at, element) : Raw{};
  }
}
template <int type>
DEVICE Floats loaded(const Raw& raw) {
  return floats_of(type == ANY ? F32 : type, raw);
}
template <int type>
DEVICE void store(const Tensor& tensor, long element, long stride, long count, const Floats& value) {
  if constexpr (type == ANY) {
    spread(tensor, element, stride, count, value);
  } else {
    if (count > 0) spread_wide<type>(tensor, element, value);
  }
}
