// Activations, alone and times a second factor, and their gradients: a kernel for each kind.
#include "backends/cuda/cu/dense.cuh"

// As tern_act counts them.
enum { SILU, GELU_TANH, GELU_ERF, SIGMOID, SOFTPLUS, EXP, QUICK_GELU };

// 1 / x for x from 1 to 64, to one unit in the last place.
DEVICE float reciprocal(float x) {
#ifdef __CUDACC__
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return 1.0f / x;
#endif
}

// sigmoid(x), and sigmoid(-x) in `rest`, as 1 - sigmoid(x) would cancel.
DEVICE float sigmoid(float x, float& rest) {
  const float e = expf(-fabsf(x));
  const float large = reciprocal(1.0f + e);
  const float small = e * large;
  rest = x < 0.0f ? large : small;
  return x < 0.0f ? small : large;
}

// The normal distribution's Phi(x) = erfc(-x / sqrt 2) / 2, erfc to a relative 1.2e-7 by the Chebyshev fit of Press et
// al., "Numerical Recipes", 6.2.2.
DEVICE float normal_cdf(float x) {
  const float z = fabsf(x) * 0.70710678f;
  const float t = reciprocal(0.5f * z + 1.0f);
  float p = 0.17087277f;
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  const float tail = 0.5f * t * expf(p - z * z);
  return x < 0.0f ? tail : 1.0f - tail;
}

// |x| beyond 16 changes nothing in a gelu's slope but could overflow on the way; NaN passes.
DEVICE float limit16(float x) { return x > 16.0f ? 16.0f : x < -16.0f ? -16.0f : x; }

// The activation, and its derivative.
template <int kind>
DEVICE float activate(float x, float& slope) {
  float rest;
  if constexpr (kind == SILU) {
    const float s = sigmoid(x, rest);
    slope = s * (x * rest + 1.0f);
    return x * s;
  } else if constexpr (kind == SIGMOID) {
    const float s = sigmoid(x, rest);
    slope = s * rest;
    return s;
  } else if constexpr (kind == SOFTPLUS) {
    slope = sigmoid(x, rest);
    return (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x)));
  } else if constexpr (kind == EXP) {
    slope = expf(x);
    return slope;
  } else if constexpr (kind == QUICK_GELU) {
    const float s = sigmoid(1.702f * x, rest);
    slope = s * (1.702f * (x * rest) + 1.0f);
    return x * s;
  } else if constexpr (kind == GELU_TANH) {
    const float root = 0.797884561f;  // sqrt(2 / pi)
    const float cube = 0.044715f;
    const float l = limit16(x);  // 1 + tanh u = 2 sigmoid(2 u)
    const float s = sigmoid(2.0f * root * l * (cube * l * l + 1.0f), rest);
    slope = l * s * (rest * (6.0f * root * cube * l * l + 2.0f * root)) + s;
    return x * s;
  } else {
    const float l = limit16(x);
    const float phi = normal_cdf(l);
    slope = l * (0.398942280f * expf(-0.5f * l * l)) + phi;
    return x * phi;
  }
}

template <int kind>
DEVICE void act(const Tensor& x, const Tensor& y, const Dense& dense) {
  const Tensor of[] = {y, x};
  dense_over<2, 2u, 1u>(dense, of, [](float* v) {
    float slope;
    v[0] = activate<kind>(v[1], slope);
  });
}

template <int kind>
DEVICE void act_backward(const Tensor& dy, const Tensor& x, const Tensor& dx, const Dense& dense) {
  const Tensor of[] = {dx, dy, x};
  dense_over<3, 6u, 1u>(dense, of, [](float* v) {
    float slope;
    (void)activate<kind>(v[2], slope);
    v[0] = v[1] * slope;
  });
}

// `limit`: infinity where nothing is clamped. NaN passes.
DEVICE float within(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

template <int kind>
DEVICE void act_mul(const Tensor& gate, const Tensor& up, const Tensor& y, const Dense& dense, float limit,
                    float up_offset) {
  const Tensor of[] = {y, gate, up};
  dense_over<3, 6u, 1u>(dense, of, [&](float* v) {
    float slope;
    const float value = activate<kind>(v[1] > limit ? limit : v[1], slope);
    v[0] = value * (within(v[2], limit) + up_offset);
  });
}

template <int kind>
DEVICE void act_mul_backward(const Tensor (&of)[5], const Dense& dense, float limit, float up_offset) {
  dense_over<5, 7u, 24u>(dense, of, [&](float* v) {
    const float g = v[0], x = v[1], u = v[2];
    float slope;
    const float value = activate<kind>(x > limit ? limit : x, slope);
    v[3] = x > limit ? 0.0f : g * (within(u, limit) + up_offset) * slope;
    v[4] = fabsf(u) > limit ? 0.0f : g * value;
  });
}

#define ALONE(name, kind)                                                                                            \
  KERNEL(act_##name)(Tensor x, Tensor y, Dense dense) { act<kind>(x, y, dense); }                                    \
  KERNEL(act_backward_##name)(Tensor dy, Tensor x, Tensor dx, Dense dense) { act_backward<kind>(dy, x, dx, dense); }
#define GATED(name, kind)                                                                                            \
  KERNEL(act_mul_##name)(Tensor gate, Tensor up, Tensor y, Dense dense, float limit, float up_offset) {              \
    begin_overlapped();                                                                                                \
    act_mul<kind>(gate, up, y, dense, limit, up_offset);                                                             \
  }                                                                                                                  \
  KERNEL(act_mul_backward_##name)(Tensor dy, Tensor gate, Tensor up, Tensor dgate, Tensor dup, Dense dense,          \
                                  float limit, float up_offset) {                                                    \
    const Tensor of[] = {dy, gate, up, dgate, dup};                                                                  \
    act_mul_backward<kind>(of, dense, limit, up_offset);                                                             \
  }
ALONE(silu, SILU)
ALONE(gelu_tanh, GELU_TANH)
ALONE(gelu_erf, GELU_ERF)
ALONE(sigmoid, SIGMOID)
ALONE(softplus, SOFTPLUS)
ALONE(exp, EXP)
ALONE(quick_gelu, QUICK_GELU)
GATED(silu, SILU)
GATED(gelu_tanh, GELU_TANH)
GATED(gelu_erf, GELU_ERF)
GATED(sigmoid, SIGMOID)
GATED(quick_gelu, QUICK_GELU)
