// Loops over contiguous fp32 arrays, one table for each target. Outputs may be inputs.
// An element's bits do not depend on where in the array it stands, but sums add in an order fixed by n.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/target.h"
#include "tern/accel_ops.h"

namespace tern::cpu {

struct AdamwStep {
  float lr, beta1, beta2, rest1, rest2, eps, decay, correction1, correction2, grad_scale;
};

// One row of a gated delta rule (ops/gated_delta_rule.h) upon some columns of S.
struct DeltaRow {
  const float* q;  // [keys], times the scale already; null: nobody reads the row
  const float* k;  // [keys]
  const float* v;  // [columns]
  float kept;      // exp(decay)
  float beta;
  std::size_t keys;
};

// One row of a selective scan (ops/selective_scan.h) upon some columns of S.
struct ScanRow {
  const float* b;  // [states]
  const float* c;  // [states]; null: nobody reads the row
  const float* x;  // [columns], times dt already
  float kept;      // exp(dt a)
  std::size_t states;
};

// act(gate within limit) times (up within limit, and offset) (ops/act_mul.h).
struct GatedAct {
  std::int32_t kind;
  float limit;  // infinity: none
  float up_offset;
};

struct TileMath {
  void (*axpby)(float a, const float* x, float b, const float* y, std::size_t n, float* out);  // a x + b y
  void (*scale)(float factor, const float* x, std::size_t n, float* out);
  void (*mul)(const float* x, const float* y, std::size_t n, float* out);
  void (*add)(const float* x, const float* y, std::size_t n, float* out);
  void (*mul_add)(float factor, const float* x, const float* y, std::size_t n, float* out);  // out += factor x y
  void (*select)(const std::uint8_t* keep, const float* x, float factor, std::size_t n,
                 float* out);  // keep ? factor x : 0

  float (*sum)(const float* x, std::size_t n);
  float (*dot)(const float* x, const float* y, std::size_t n);
  float (*dot3)(const float* x, const float* y, const float* z, std::size_t n);
  // Low-rank products, with the rows of a [ranks, n] `stride` apart: h[r] += a[r] . x; out = h^T a; and, of four rows at
  // most, out[r] += sum over them of h[row][r] x[row], rows of h `ranks` and of x and out `stride` apart.
  void (*shrink)(const float* x, const float* a, std::size_t stride, std::size_t ranks, std::size_t n, float* h);
  void (*expand)(const float* h, const float* a, std::size_t stride, std::size_t ranks, std::size_t n, float* out);
  void (*add_outer)(const float* h, const float* x, std::size_t stride, std::size_t rows, std::size_t ranks,
                    std::size_t n, float* out);
  float (*max)(const float* x, std::size_t n);                   // -inf where n == 0; NaN elements are passed over
  float (*sum_exp)(const float* x, float shift, std::size_t n);  // sum of exp(x - shift), x <= shift
  bool (*all_finite)(const float* x, std::size_t n);

  // x rstd w
  void (*norm)(const float* x, float rstd, const float* w, std::size_t n, float* out);
  // carried + rstd (dy w - x pull); `carried` may be null
  void (*norm_backward)(const float* dy, const float* w, const float* x, float rstd, float pull, const float* carried,
                        std::size_t n, float* out);

  // Pairs (u, w) become (u cos - w sin, w cos + u sin): (x[i], x[i + half]), or (x[2i], x[2i + 1]) if interleaved.
  // `sign` is a factor of sin.
  void (*rotate)(const float* x, const float* cos, const float* sin, float sign, std::size_t half, bool interleaved,
                 float* out);

  void (*act)(std::int32_t kind, const float* x, std::size_t n, float* out);
  void (*act_backward)(std::int32_t kind, const float* dy, const float* x, std::size_t n, float* dx);
  void (*act_mul)(const GatedAct& act, const float* gate, const float* up, std::size_t n, float* out);
  void (*act_mul_backward)(const GatedAct& act, const float* dy, const float* gate, const float* up, std::size_t n,
                           float* dgate, float* dup);

  // S [keys, columns], rows `stride` apart: S = kept S; u = v - S^T k; S += k (beta u)^T; out = S^T q. `u` may be null.
  void (*delta_rule)(const DeltaRow& row, std::size_t columns, std::size_t stride, float* s, float* u, float* out);
  // S [states, columns], rows `stride` apart: S = kept S + b x^T; out = S^T c.
  void (*selective_scan)(const ScanRow& row, std::size_t columns, std::size_t stride, float* s, float* out);

  // keep[4 b + i] = uniform24(philox(key, {first_block + b, site, 0, 0})[i]) >= rate, for whole blocks b < blocks.
  void (*philox_keep)(std::uint64_t key, std::uint32_t first_block, std::uint32_t site, float rate, std::size_t blocks,
                      std::uint8_t* keep);

  void (*adamw)(const AdamwStep& step, const float* grad, std::size_t n, float* param, float* m, float* v);
};

[[nodiscard]] const TileMath& tile_math(Target target);

}  // namespace tern::cpu
