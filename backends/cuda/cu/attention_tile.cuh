// Tiles of the kernels in plain fp32: rows in shared memory, and products of micro-tiles. Sizes are numbers of the
// call: s.tile entries by s.tile_keys keys, both multiples of 4, and at most 32 keys. Blocks are of one dimension.
#pragma once

#include "backends/cuda/cu/attention.cuh"
#include "backends/cuda/cu/numbers.cuh"

CONSTANT int W = 4;   // neighbours that a thread takes
CONSTANT int RQ = 4;  // rows that a thread takes

struct alignas(16) Quad {
  float x[W];
};
DEVICE Quad load_quad(const float* at) { return *reinterpret_cast<const Quad*>(at); }
DEVICE void store_quad(float* at, const Quad& quad) { *reinterpret_cast<Quad*>(at) = quad; }

// The sign of a weight or of its gradient says that the row doesn't see the key: what is multiplied by it is left out,
// as it may be infinite or NaN.
CONSTANT float kHidden = -0.0f;
DEVICE bool is_hidden(float weight) { return __float_as_uint(weight) == 0x80000000u; }

// A code of 8 bits times its row's scale.
DEVICE float get_scaled(const Tensor& codes, long element, float scale) {
  const uchar code = codes.at[element];
  return (codes.dtype == I8 ? static_cast<float>(static_cast<signed char>(code)) : e4m3_value(code)) * scale;
}

// `total` rows into shared memory, as they lie [total, pitch] and turned [pitch, total], where either isn't null.
// row_at gives where row i begins, in elements, value_at(i, element) an element of it. Rows from `count` on and what is
// beyond `width` are 0.
template <typename RowAt, typename ValueAt>
DEVICE void load_values(int total, int count, int width, int pitch, long stride, float* lying, float* turned,
                        RowAt&& row_at, ValueAt&& value_at) {
  for (int unit = threadIdx.x; unit < total * (pitch / W); unit += blockDim.x) {
    // Neighbouring threads take neighbouring features where rows stay as they lie, rows where they are turned.
    const int i = turned != nullptr ? unit % total : unit / (pitch / W);
    const int d = (turned != nullptr ? unit / total : unit % (pitch / W)) * W;
    Quad some = {};
    if (i < count) {
      const long row = row_at(i);
      UNROLL for (int w = 0; w < W; ++w) {
        if (d + w < width) some.x[w] = value_at(i, row + (d + w) * stride);
      }
    }
    if (lying != nullptr) store_quad(lying + i * pitch + d, some);
    if (turned == nullptr) continue;
    UNROLL for (int w = 0; w < W; ++w) turned[(d + w) * total + i] = some.x[w];
  }
}

template <typename RowAt>
DEVICE void load_rows(const Tensor& from, int total, int count, int width, int pitch, long stride, float* lying,
                      float* turned, RowAt&& row_at) {
  load_values(total, count, width, pitch, stride, lying, turned, row_at,
              [&](int, long element) { return get(from, element); });
}

// dots[r] = the products of row r of RQ and of W turned ones, of `total`.
DEVICE void multiply_turned(const float* rows, int pitch, const float* turned, int total, int width, Quad (&dots)[RQ]) {
  UNROLL for (int r = 0; r < RQ; ++r) dots[r] = {};
  for (int d = 0; d < width; ++d) {
    const Quad other = load_quad(turned + d * total);
    UNROLL for (int r = 0; r < RQ; ++r) {
      const float own = rows[r * pitch + d];
      UNROLL for (int w = 0; w < W; ++w) dots[r].x[w] = fmaf(own, other.x[w], dots[r].x[w]);
    }
  }
}

// sums [tile, pitch] += weights [tile, tile_keys] by the first `count` rows of values [tile_keys, pitch]; `whole`: none
// is hidden.
DEVICE void add_weighted(float* sums, const float* weights, const float* values, int pitch, int count, bool whole,
                         const AttentionSizes& s) {
  const int vectors = pitch / W;
  for (int unit = threadIdx.x; unit < s.tile / RQ * vectors; unit += blockDim.x) {
    const int e = unit / vectors * RQ;
    const int d = unit % vectors * W;
    Quad sum[RQ];
    UNROLL for (int r = 0; r < RQ; ++r) sum[r] = load_quad(sums + (e + r) * pitch + d);
    for (int j = 0; j < count; ++j) {
      const Quad value = load_quad(values + j * pitch + d);
      UNROLL for (int r = 0; r < RQ; ++r) {
        const float weight = weights[(e + r) * s.tile_keys + j];
        if (!whole && is_hidden(weight)) continue;
        UNROLL for (int w = 0; w < W; ++w) sum[r].x[w] = fmaf(weight, value.x[w], sum[r].x[w]);
      }
    }
    UNROLL for (int r = 0; r < RQ; ++r) store_quad(sums + (e + r) * pitch + d, sum[r]);
  }
}
DEVICE void clear(float* sums, int count) {
  for (int at = threadIdx.x; at < count; at += blockDim.x) sums[at] = 0.0f;
}
