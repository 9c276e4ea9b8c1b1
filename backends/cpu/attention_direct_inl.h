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
  const auto* narrow = reinterpret_cast<const std::uint16_t*>(row) + i;
  if constexpr (Dtype == TERN_BF16) return V::load_bf16(narrow);
  return V::load_f16(narrow);
}

constexpr std::int64_t kRowsAhead = 8;

// M rows of q by all keys, two keys side by side: a key's sum is one chain a row.
template <typename V, tern_dtype Dtype, int M>
void scores_of(const StoredRows& keys, const float* q, float* scores, std::int64_t ld) {
  constexpr int W = V::width;
  const std::int64_t last = keys.count - 1;
  for (std::int64_t j = 0; j < keys.count; j += 2) {
    const std::byte* row[2] = {keys.rows[j], keys.rows[std::min(j + 1, last)]};
    const std::byte* ahead = keys.rows[std::min(j + kRowsAhead, last)];
    typename V::F sums[2][M];
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) sums[0][m] = sums[1][m] = V::zero();
    for (std::int64_t i = 0; i < keys.dim; i += W) {
      const typename V::F a = stored<V, Dtype>(row[0], i), b = stored<V, Dtype>(row[1], i);
      __builtin_prefetch(ahead + i * (Dtype == TERN_F32 ? 4 : 2));
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) {
        const typename V::F x = V::load(q + m * keys.dim + i);
        sums[0][m] = V::fma(x, a, sums[0][m]);
        sums[1][m] = V::fma(x, b, sums[1][m]);
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      scores[m * ld + j] = V::sum(sums[0][m]);
      if (j < last) scores[m * ld + j + 1] = V::sum(sums[1][m]);
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
    for (int c = 0; c < C; ++c) sums[m][c] = V::zero();
  }
  const std::int64_t last = values.count - 1;
  for (std::int64_t j = 0; j < values.count; ++j) {
    typename V::F value[C];
    __builtin_prefetch(values.rows[std::min(j + kRowsAhead, last)] + first * (Dtype == TERN_F32 ? 4 : 2));
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) value[c] = stored<V, Dtype>(values.rows[j], first + c * W);
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
