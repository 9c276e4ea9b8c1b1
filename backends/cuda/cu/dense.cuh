// Elementwise work by 8 elements a thread (dense.h of the host): loads and stores of 16 bytes where a tensor lies so,
// single elements elsewhere. All of a thread's loads come before its stores, so an output may share an input's memory.
#pragma once

#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/vectors.cuh"

struct Dense {
  Walk walk;
  int vectors;
  int quads;
  int same;
  int reserved;
};

// ---------------------------------------------------------------- whose elements are whose
// Elements first to first + 3 and second to second + 3 of a row; of fewer than 8 the second four follow the first.
struct Eight {
  long row;
  long first;
  long second;
  int count;
};

DEVICE bool is_small(const Walk& walk) { return walk.units <= 0x7fffffffL && walk.inner <= 0x7fffffffL; }

// What the unit-th thread of all has; units of a warp are neighbours.
DEVICE Eight eight_of(const Dense& dense, long unit) {
  const Walk& walk = dense.walk;
  long part = unit, row = 0;
  if (walk.rank > 0) divide(unit, walk.chunks, is_small(walk), row, part);
  const long first = part * walk.chunk, left = walk.inner - first;
  Eight eight = {row, first, first + 4, static_cast<int>(left < walk.chunk ? left : walk.chunk)};
  if (dense.quads != 0) {
    const long lane = part % 32, warp = (part - lane) * W;
    if (warp + 32 * W <= walk.inner) {
      eight.first = warp + lane * 4;
      eight.second = eight.first + 128;
    }
  }
  return eight;
}

// Where each tensor's row begins, in elements.
template <int tensors>
DEVICE void rows_of(const Walk& walk, long row, long (&begin)[tensors]) {
  UNROLL for (int t = 0; t < tensors; ++t) begin[t] = 0;
  for (int d = walk.rank - 1; d >= 0; --d) {
    long at;
    divide(row, walk.shape[d], is_small(walk), row, at);
    UNROLL for (int t = 0; t < tensors; ++t) begin[t] += at * walk.stride[t][d];
  }
}

// ---------------------------------------------------------------- 8 elements of a tensor
struct alignas(8) Pair {
  uint x, y;
};

// Elements a to a + 3 and b to b + 3, as they lie. Both are multiples of 4; where b is a + 4, a is one of 8.
DEVICE Raw load_fours(const Tensor& tensor, long a, long b) {
  if (b == a + 4) return load_raw(tensor.dtype, tensor.at, a);
  Raw raw = {};
  if (tensor.dtype == F32) {
    raw.low = load_quad(tensor.as<float>() + a);
    raw.high = load_quad(tensor.as<float>() + b);
  } else {
    const Pair low = *reinterpret_cast<const Pair*>(tensor.as<ushort>() + a);
    const Pair high = *reinterpret_cast<const Pair*>(tensor.as<ushort>() + b);
    raw.low = {low.x, low.y, high.x, high.y};
  }
  return raw;
}
DEVICE void store_fours(const Tensor& tensor, long a, long b, const Floats& x) {
  const Raw raw = raw_of(tensor.dtype, x);
  if (b == a + 4) {
    store_raw(tensor.dtype, tensor.at, a, raw);
  } else if (tensor.dtype == F32) {
    store_quad(tensor.as<float>() + a, raw.low);
    store_quad(tensor.as<float>() + b, raw.high);
  } else {
    *reinterpret_cast<Pair*>(tensor.as<ushort>() + a) = {raw.low.x, raw.low.y};
    *reinterpret_cast<Pair*>(tensor.as<ushort>() + b) = {raw.low.z, raw.low.w};
  }
}

// The t-th tensor's elements of this thread, those beyond the count and of an absent tensor 0.
DEVICE Floats fetch_eight(const Dense& dense, int t, const Tensor& tensor, long begin, const Eight& eight) {
  if (!tensor.here()) return floats_of(0.0f);
  if ((dense.vectors >> t & 1) != 0 && eight.count == W) {
    return floats_of(tensor.dtype, load_fours(tensor, begin + eight.first, begin + eight.second));
  }
  const long stride = dense.walk.inner_stride[t], from = begin + eight.first * stride;
  Floats x;
  UNROLL for (int i = 0; i < W; ++i) x[i] = i < eight.count ? get(tensor, from + i * stride) : 0.0f;
  return x;
}
DEVICE void spread_eight(const Dense& dense, int t, const Tensor& tensor, long begin, const Eight& eight,
                         const Floats& x) {
  if ((dense.vectors >> t & 1) != 0 && eight.count == W) {
    return store_fours(tensor, begin + eight.first, begin + eight.second, x);
  }
  const long stride = dense.walk.inner_stride[t], to = begin + eight.first * stride;
  UNROLL for (int i = 0; i < W; ++i) {
    if (i < eight.count) put(tensor, to + i * stride, x[i]);
  }
}

// ---------------------------------------------------------------- all tensors
// How much of a call is known when it is compiled: the dtype of all tensors, that all lie in vectors, or nothing.
enum { ALL_BF16, ALL_F32, VECTORS, ANYHOW };

template <int known, int tensors, uint reads, uint writes, typename Step>
DEVICE void eight_over(const Dense& dense, const Tensor (&given)[tensors], const Eight& eight, Step&& step) {
  Tensor of[tensors];
  long begin[tensors];
  Raw raw[tensors];
  Floats x[tensors];
  rows_of(dense.walk, eight.row, begin);
  // Loads apart from conversions, so that those of several tensors are on their way together.
  UNROLL for (int t = 0; t < tensors; ++t) {
    of[t] = {given[t].at, known == ALL_BF16 ? BF16 : known == ALL_F32 ? F32 : given[t].dtype, given[t].adds};
    raw[t] = {};
    if (known == ANYHOW || (reads >> t & 1u) == 0 || !of[t].here()) continue;
    raw[t] = load_fours(of[t], begin[t] + eight.first, begin[t] + eight.second);
  }
  UNROLL for (int t = 0; t < tensors; ++t) {
    const bool single = known == ANYHOW && (reads >> t & 1u) != 0;
    x[t] = single ? fetch_eight(dense, t, of[t], begin[t], eight) : floats_of(of[t].dtype, raw[t]);
  }
  UNROLL for (int i = 0; i < W; ++i) {
    float values[tensors];
    UNROLL for (int t = 0; t < tensors; ++t) values[t] = x[t][i];
    step(values);
    UNROLL for (int t = 0; t < tensors; ++t) x[t][i] = values[t];
  }
  UNROLL for (int t = 0; t < tensors; ++t) {
    if ((writes >> t & 1u) == 0 || !of[t].here()) continue;
    if (of[t].adds != 0) x[t] = fetch_eight(dense, t, of[t], begin[t], eight) + x[t];
    if (known == ANYHOW) {
      spread_eight(dense, t, of[t], begin[t], eight, x[t]);
    } else {
      store_fours(of[t], begin[t] + eight.first, begin[t] + eight.second, x[t]);
    }
  }
}

// Calls step(x) for each element that this thread has. x[t] is that of the t-th tensor: where `reads` has bit t it
// comes from memory (0 where the tensor is absent); where `writes` has it, it goes there afterwards, replacing or
// adding as the op asked. `fixed`: the tensors' dtypes are in the kernel already, and need no copies of its code.
template <int tensors, uint reads, uint writes, bool fixed = false, typename Step>
DEVICE void dense_over(const Dense& dense, const Tensor (&of)[tensors], Step&& step) {
  const long unit = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (unit >= dense.walk.units) return;
  const Eight eight = eight_of(dense, unit);
  const bool whole = eight.count == W && dense.vectors == (1 << tensors) - 1;
  if (!fixed && whole && dense.same == BF16) {
    eight_over<ALL_BF16, tensors, reads, writes>(dense, of, eight, step);
  } else if (!fixed && whole && dense.same == F32) {
    eight_over<ALL_F32, tensors, reads, writes>(dense, of, eight, step);
  } else if (whole) {
    eight_over<VECTORS, tensors, reads, writes>(dense, of, eight, step);
  } else {
    eight_over<ANYHOW, tensors, reads, writes>(dense, of, eight, step);
  }
}
