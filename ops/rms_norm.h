// rms_norm: s = x + residual; rstd = 1 / sqrt(mean(s^2) + eps); y = s rstd (weight + weight_offset).
// Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.
//
// Shapes: x, residual, y, sum [rows, width], weight [width], rstd [rows]; width >= 1. sum is there iff residual is.
// Dtypes: float. s is the fp32 sum rounded to sum's dtype (without residual: x itself); the rest is fp32.
// Aliasing: y may be x; sum may be residual (same dtype and strides).
// Determinism: a fixed order where `deterministic` is asked. Row invariant where that is.
// Backward: rms_norm_backward on s, weight and rstd; x and residual share one gradient.
// Decomposition: with residual: axpby, then rms_norm.
// Tolerance: y: u(y) |y| + u32 growth(width) 2 |s rstd| (|weight| + |offset|); rstd: u32 growth(width) 4 rstd; sum:
// exact.
//
// rms_norm_backward: with g = dy (weight + weight_offset):
//   dx = dsum + rstd (g - x rstd^2 mean(g x));  dweight = sum over rows of dy x rstd.
//
// Shapes: dy, x, dsum, dx [rows, width], weight [width], rstd [rows], dweight [width] f32. x is what was normalised
// (s). Dtypes: float; computed in fp32. dweight may accumulate; it sums the valid rows only. Aliasing: dx may be dy or
// dsum (same dtype and strides). Determinism: dweight in a fixed order where `deterministic` is asked; dx row invariant
// where that is. Backward: none. Decomposition: with dsum: rms_norm_backward into fp32, then axpby. Tolerance: dx:
// u(dx) |dx| + u32 growth(width) (|dsum| + 2 rstd (|g| + |x| rstd^2 mean |g x|)); dweight: growth(rows).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct RmsNormOptions {
  float eps = 1e-5F;
  float weight_offset = 0.0F;
  Value residual;         // may be absent
  bool keep_rstd = true;  // a backward needs it
  tern_dtype out = TERN_F32;
  tern_dtype sum = TERN_F32;  // dtype of x + residual
  std::uint32_t needs = 0;
};
struct RmsNormOut {
  Value y;
  Value sum;   // x where there is no residual
  Value rstd;  // absent unless kept
};
[[nodiscard]] RmsNormOut rms_norm(Emitter& emitter, Value x, Value weight, const RmsNormOptions& options);

struct RmsNormBackwardOptions {
  float weight_offset = 0.0F;
  Value dsum;  // may be absent
  bool dweight = true;
  Value dweight_into;  // adds to it
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
struct RmsNormGrads {
  Value dx;
  Value dweight;  // absent unless asked for
};
[[nodiscard]] RmsNormGrads rms_norm_backward(Emitter& emitter, Value dy, Value x, Value weight, Value rstd,
                                             const RmsNormBackwardOptions& options);

}  // namespace tern::ops
