// Row loops of attention, of the cross entropy and of the soft cap, one table a target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/target.h"
#include "tern/accel.h"

namespace tern::cpu {

// Scores to logits: z = scale s, then z = softcap tanh(z / softcap) where softcap > 0.
struct Logits {
  float scale;
  float softcap;
};

// Keys or values of one head as they are stored: `count` rows of `dim` elements, side by side in each.
struct StoredRows {
  tern_dtype dtype;  // f32, bf16, f16, or a cache's i8 or f8_e4m3
  const std::byte* first;
  std::int64_t stride;  // bytes from row to row
  std::int64_t count;
  std::int64_t dim;  // a multiple of kDirectDim
};
inline constexpr std::int64_t kDirectDim = 16;

// A cache of 8 bits has codes over a scale for each row of a head (ops/kv_write.h). Kernels compute with the codes, of
// e4m3 2^-8 of them, and multiply scores and weights by scales times this.
[[nodiscard]] constexpr float code_factor(tern_dtype dtype) { return dtype == TERN_F8_E4M3 ? 256.0F : 1.0F; }

struct RowKernels {
  // scores[r ld + j] = q[r] . key j, for `rows` rows of q [rows, dim]; where there are scales they come after.
  void (*scores)(const StoredRows& keys, const float* q, std::int64_t rows, float* scores, std::int64_t ld);
  // out[r ld_out + i] += sum over j of p[r ld_p + j] value j[i].
  void (*weigh)(const StoredRows& values, const float* p, std::int64_t ld_p, std::int64_t rows, float* out,
                std::int64_t ld_out);
  // s[lo, hi) becomes exp(z - max) and the rest of s[0, width) 0; the maximum and the sum of them. Nothing visible:
  // *max = -inf, *sum = 0. Lanes are places of s, so that zeros around [lo, hi) leave the sum's bits alone.
  void (*softmax)(float* s, std::int64_t width, std::int64_t lo, std::int64_t hi, Logits logits, float* max,
                  float* sum);
  // Joins a block's (max, sum, out = sum of p v, [rows, width] with stride ld) to what came before it.
  void (*merge)(std::int64_t rows, std::int64_t width, std::int64_t ld, const float* block_max, const float* block_sum,
                const float* block_out, float* max, float* sum, float* out);
  // s[lo, hi) becomes p = exp(z - lse), dp[lo, hi) the score's gradient p (dp - delta) dz/ds; the rest of [0, width) 0.
  void (*softmax_backward)(float* s, float* dp, std::int64_t width, std::int64_t lo, std::int64_t hi, Logits logits,
                           float lse, float delta);
  float (*dot)(const float* x, const float* y, std::int64_t n);
  void (*scale)(float* x, float factor, std::int64_t n);
  bool (*finite)(const float* x, std::int64_t n);
  // softcap tanh(x / softcap); `out` may be x. An element's bits do not depend on where it stands.
  void (*softcap)(const float* x, std::int64_t n, float softcap, float* out);
  void (*mul)(float* x, const float* factors, std::int64_t n);  // x[i] *= factors[i]
  float (*largest)(const float* x, std::int64_t n);             // of |x|, which is finite
  // Codes of x over `scale` in i8 or e4m3, rounded to nearest even; all within the dtype.
  void (*encode)(tern_dtype dtype, const float* x, float scale, std::int64_t n, std::byte* to);
  // Codes to bf16, which holds each: of e4m3 2^-8 of it.
  void (*widen_codes)(tern_dtype dtype, const std::byte* from, std::int64_t n, std::uint16_t* to);
  // A row of logits' own: z in place, its maximum, and the sum of exp(z - max).
  void (*logits_row)(float* z, std::int64_t n, float softcap, float* max, float* sum);
  // z[i] becomes weight (exp(z - max) / sum), times dz/ds where softcap > 0.
  void (*logits_gradient)(float* z, std::int64_t n, float softcap, float max, float inverse_sum, float weight);
};

[[nodiscard]] const RowKernels& row_kernels(Target target);

// One table per file; null where the compiler's machine has no such target.
[[nodiscard]] const RowKernels* row_kernels_baseline();
[[nodiscard]] const RowKernels* row_kernels_avx2();
[[nodiscard]] const RowKernels* row_kernels_avx512();

}  // namespace tern::cpu
