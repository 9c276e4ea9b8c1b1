// Few query rows by keys and values where they lie, without packing: over the vectors of vec_*.h, for
// attention_kernels_inl.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/attention_kernels.h"

namespace tern::cpu {
namespace {

template <typename V, tern_dtype Dtype>
inline __attribute__((always_inline)) typename V::F stored(const std::byte* row, std::int64_t i) {
  if constexpr (Dtype == TERN_F32) return V::load(reinterpret_cast<const float*>(row) + i);
  if constexpr (Dtype == TERN_I8) return V::load_i8(reinterpret_cast<const std::int8_t*>(row) + i);
  if constexpr (Dtype == TERN_F8_E4M3) return V::load_e4m3(reinterpret_cast<const std::uint8_t*>(row) + i);
  const auto* narrow = reinterpret_cast<const std::uint16_t*>(row) + i;
  if constexpr (Dtype == TERN_BF16) return V::load_bf16(narrow);
  return V::load_f16(narrow);
}

// M rows of q by all keys, four keys side by side: a key's sum is one chain a row.
template <typename V, tern_dtype Dtype, int M>
void scores_of(const StoredRows& keys, const float* q, float* scores, std::int64_t ld) {
  constexpr int W = V::width;
  for (std::int64_t j = 0; j < keys.count; j += 4) {
    const std::int64_t some = std::min<std::int64_t>(4, keys.count - j);
    const std::byte* row[4];
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) row[n] = keys.first + (j + std::min<std::int64_t>(n, some - 1)) * keys.stride;
    typename V::F sums[M][4];
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n) sums[m][n] = V::zero();
    }
    for (std::int64_t i = 0; i < keys.dim; i += W) {
      typename V::F x[M];
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) x[m] = V::load(q + m * keys.dim + i);
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n) {
        const typename V::F key = stored<V, Dtype>(row[n], i);
#pragma GCC unroll 4
        for (int m = 0; m < M; ++m) sums[m][n] = V::fma(x[m], key, sums[m][n]);
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      if (some == 4) {
        V::sum_four(sums[m], scores + m * ld + j);
        continue;
      }
      float four[4];
      V::sum_four(sums[m], four);
      std::copy_n(four, some, scores + m * ld + j);
    }
  }
}

// M rows of p by C vectors of all values' elements from `first` on.
template <typename V, tern_dtype Dtype, int M, int C>
void weigh_of(const StoredRows& values, const float* p, std::int64_t ld_p, std::int64_t first, float* out,
              std::int64_t ld_out) {
  constexpr int W = V::width;
  typename V::F sums[M][C];
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[m][c] = V::load(out + m * ld_out + first + c * W);
  }
  const std::byte* row = values.first;
  for (std::int64_t j = 0; j < values.count; ++j, row += values.stride) {
    typename V::F value[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) value[c] = stored<V, Dtype>(row, first + c * W);
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      const typename V::F weight = V::set1(p[m * ld_p + j]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sums[m][c] = V::fma(weight, value[c], sums[m][c]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) V::store(out + m * ld_out + first + c * W, sums[m][c]);
  }
}

// fn.template operator()<dtype, M>(first row) for all rows, up to three at a time.
template <typename Fn>
void for_few_rows(tern_dtype dtype, std::int64_t rows, const Fn& fn) {
  const auto with = [&]<tern_dtype Dtype>() {
    std::int64_t r = 0;
    for (; rows - r >= 3; r += 3) fn.template operator()<Dtype, 3>(r);
    if (rows - r == 2) fn.template operator()<Dtype, 2>(r);
    if (rows - r == 1) fn.template operator()<Dtype, 1>(r);
  };
  if (dtype == TERN_F32) return with.template operator()<TERN_F32>();
  if (dtype == TERN_BF16) return with.template operator()<TERN_BF16>();
  if (dtype == TERN_I8) return with.template operator()<TERN_I8>();
  if (dtype == TERN_F8_E4M3) return with.template operator()<TERN_F8_E4M3>();
  with.template operator()<TERN_F16>();
}

template <typename V>
void scores_any(const StoredRows& keys, const float* q, std::int64_t rows, float* scores, std::int64_t ld) {
  for_few_rows(keys.dtype, rows, [&]<tern_dtype Dtype, int M>(std::int64_t r) {
    scores_of<V, Dtype, M>(keys, q + r * keys.dim, scores + r * ld, ld);
  });
}

template <typename V>
void weigh_any(const StoredRows& values, const float* p, std::int64_t ld_p, std::int64_t rows, float* out,
               std::int64_t ld_out) {
  constexpr int W = V::width;
  for_few_rows(values.dtype, rows, [&]<tern_dtype Dtype, int M>(std::int64_t r) {
    std::int64_t i = 0;
    for (; values.dim - i >= 4 * W; i += 4 * W) {
      weigh_of<V, Dtype, M, 4>(values, p + r * ld_p, ld_p, i, out + r * ld_out, ld_out);
    }
    for (; i < values.dim; i += W) weigh_of<V, Dtype, M, 1>(values, p + r * ld_p, ld_p, i, out + r * ld_out, ld_out);
  });
}

}  // namespace
}  // namespace tern::cpu
