// layer_norm: s = x + residual; rstd = 1 / sqrt(mean((s - mean(s))^2) + eps); y = (s - mean(s)) rstd weight + bias.
// Ba, Kiros and Hinton, "Layer Normalization", 2016.
//
// Shapes: x, residual, y, sum [rows, width], weight, bias [width], mean, rstd [rows]; width >= 1. sum is there iff
// residual is, mean iff rstd is. s is the fp32 sum rounded to sum's dtype (without residual: x itself); the rest is
// fp32. Dtypes: float.
// Aliasing: y may be x; sum may be residual (same dtype and strides).
// Determinism: a fixed order where `deterministic` is asked. Row invariant where that is.
// Backward: layer_norm_backward on s, weight, mean and rstd; x and residual share one gradient.
// Decomposition: with residual: axpby, then layer_norm; without: rms_norm of s - mean(s) in fp32, then the bias.
// Tolerance, with c = s - mean(s): c is off by u32 growth(width) mean |s|, as its mean is, and rstd, of which only the
// square of that is part, as rms_norm's: y: u(y) |y| + u32 growth(width) (|weight| rstd (2 |c| + mean |s|) + |bias|);
// mean: u32 growth(width) mean |s|; rstd: u32 growth(width) 4 rstd; sum: exact.
//
// layer_norm_backward: with c = x - mean and g = dy weight:
//   dx = dsum + rstd (g - mean(g) - c rstd^2 mean(g c));  dweight = sum over rows of dy c rstd;
//   dbias = sum over rows of dy.
//
// Shapes: dy, x, dsum, dx [rows, width], weight [width], mean, rstd [rows], dweight, dbias [width] f32. x is what was
// normalised (s), and mean the mean of it. Dtypes: float; computed in fp32. dweight and dbias may accumulate; they sum
// the valid rows only. Aliasing: dx may be dy or dsum (same dtype and strides). Determinism: dweight and dbias in a
// fixed order where `deterministic` is asked; dx row invariant where that is. Backward: none.
// Decomposition: with dsum: layer_norm_backward into fp32, then axpby; else rms_norm_backward of c, less its own mean.
// Tolerance: c is off by u32 |c|, and as much as m = |x| + |mean| where it isn't made first. dx: u(dx) |dx| + u32
// growth(width) (|dsum| + 2 rstd (|g| + mean |g| + m rstd^2 mean(|g| m))); dweight: growth(rows) of 2 |dy| m rstd;
// dbias: growth(rows).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct LayerNormOptions {
  float eps = 1e-5F;
  Value residual;          // may be absent
  Value bias;              // may be absent
  bool keep_stats = true;  // a backward needs mean and rstd
  tern_dtype out = TERN_F32;
  tern_dtype sum = TERN_F32;  // dtype of x + residual
  std::uint32_t needs = 0;
};
struct LayerNormOut {
  Value y;
  Value sum;   // x where there is no residual
  Value mean;  // absent unless kept, and so is rstd
  Value rstd;
};
[[nodiscard]] LayerNormOut layer_norm(Emitter& emitter, Value x, Value weight, const LayerNormOptions& options);

// What a row was normalised by.
struct LayerNormStats {
  Value mean;
  Value rstd;
};
struct LayerNormBackwardOptions {
  Value dsum;  // may be absent
  bool dweight = true;
  bool dbias = true;
  Value dweight_into;  // adds to it
  Value dbias_into;    // adds to it
  tern_dtype out = TERN_F32;
  std::uint32_t needs = 0;
};
struct LayerNormGrads {
  Value dx;
  Value dweight;  // absent unless asked for
  Value dbias;    // absent unless asked for
};
[[nodiscard]] LayerNormGrads layer_norm_backward(Emitter& emitter, Value dy, Value x, Value weight,
                                                 const LayerNormStats& stats, const LayerNormBackwardOptions& options);

}  // namespace tern::ops
