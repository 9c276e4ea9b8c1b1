// Norms, rotary positions and gated units, with their gradients.
#pragma once

#include "numerics_view.h"

namespace fake::numerics {

// x: [rows of width], seen as a matrix by as_matrix. y = x rstd gamma (+ 1 to gamma where `unit_offset`).
void rms_norm(const View& x, const View& gamma, double epsilon, bool unit_offset, const View& y, const View* rstd);
struct RmsNormGradient {
  View dy, x, rstd, gamma;  // [rows, width], [rows, width], [rows], [width]
  std::uint64_t shuffle = 0;
};
void rms_norm_gradient(const RmsNormGradient& in, const View& dx, const View& dgamma);

void layer_norm(const View& x, const View* weight, const View* bias, double epsilon, const View& y, const View* mean,
                const View* rstd);
struct LayerNormGradient {
  View dy, x, mean, rstd;
  const View* weight = nullptr;
  std::uint64_t shuffle = 0;
};
void layer_norm_gradient(const LayerNormGradient& in, const View* dx, const View* dweight, const View* dbias);

// y[d] = x[d] cos[d] + turned(x)[d] sin[d]; turned is (-second half, first half), or (-odd, even) interleaved.
void rotate(const View& x, const View& cos, const View& sin, bool interleaved, const View& y);
// dx, and dcos and dsin where they are asked for, summed over what broadcasts.
void rotate_gradient(const View& dy, const View& cos, const View& sin, bool interleaved, const View& dx);
void rotate_table_gradient(const View& dy, const View& x, bool interleaved, const View& dcos, const View& dsin);

// The halves of `x` along a dimension are the gate (first) and what it multiplies.
void swish_gate(const View& x, std::int64_t dimension, const View& out);
void swish_gate_gradient(const View& dy, const View& x, std::int64_t dimension, const View& dx);

// Scalar functions that several ops share.
[[nodiscard]] double sigmoid(double x);
[[nodiscard]] double silu_slope(double x);
[[nodiscard]] double gelu(double x, bool by_tanh);
[[nodiscard]] double gelu_slope(double x, bool by_tanh);

}  // namespace fake::numerics
