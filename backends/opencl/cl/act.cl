// Activations (KIND, as tern_act counts them), alone and times a second factor, and their gradients.
#define SILU 0
#define GELU_TANH 1
#define GELU_ERF 2
#define SIGMOID 3
#define SOFTPLUS 4
#define EXP 5
#define QUICK_GELU 6

// sigmoid(x), and sigmoid(-x) in `rest`, as 1 - sigmoid(x) would cancel.
static inline float sigmoid(float x, float* rest) {
  const float e = exp(-fabs(x));
  const float large = 1.0f / (1.0f + e);
  const float small = e * large;
  *rest = x < 0.0f ? large : small;
  return x < 0.0f ? small : large;
}

// The normal distribution's Phi(x) = erfc(-x / sqrt 2) / 2, erfc to a relative 1.2e-7 by the Chebyshev fit of Press et
// al., "Numerical Recipes", 6.2.2: OpenCL's own may be off by 16 ulp.
static inline float normal_cdf(float x) {
  const float z = fabs(x) * 0.70710678f;
  const float t = 1.0f / (0.5f * z + 1.0f);
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
  const float tail = 0.5f * t * exp(p - z * z);
  return x < 0.0f ? tail : 1.0f - tail;
}

// |x| beyond 16 changes nothing in a gelu's slope but could overflow on the way; NaN passes.
static inline float limit16(float x) { return x > 16.0f ? 16.0f : x < -16.0f ? -16.0f : x; }

// The activation, and its derivative.
static inline float activate(float x, float* slope) {
  float rest;
#if KIND == SILU
  const float s = sigmoid(x, &rest);
  *slope = s * (x * rest + 1.0f);
  return x * s;
#elif KIND == SIGMOID
  const float s = sigmoid(x, &rest);
  *slope = s * rest;
  return s;
#elif KIND == SOFTPLUS
  *slope = sigmoid(x, &rest);
  return (x < 0.0f ? 0.0f : x) + log1p(exp(-fabs(x)));
#elif KIND == EXP
  *slope = exp(x);
  return *slope;
#elif KIND == QUICK_GELU
  const float s = sigmoid(1.702f * x, &rest);
  *slope = s * (1.702f * (x * rest) + 1.0f);
  return x * s;
#elif KIND == GELU_TANH
  const float root = 0.797884561f;  // sqrt(2 / pi)
  const float cube = 0.044715f;
  const float l = limit16(x);  // 1 + tanh u = 2 sigmoid(2 u)
  const float s = sigmoid(2.0f * root * l * (cube * l * l + 1.0f), &rest);
  *slope = l * s * (rest * (6.0f * root * cube * l * l + 2.0f * root)) + s;
  return x * s;
#else
  const float l = limit16(x);
  const float phi = normal_cdf(l);
  *slope = l * (0.398942280f * exp(-0.5f * l * l)) + phi;
  return x * phi;
#endif
}

#ifdef ALONE
kernel void act(INPUT(x), OUTPUT(y), const Walk walk) {
#define STEP(o, i0) float slope; PUT(y, o, activate(GET(x, i0), &slope));
  WALK(walk, 2, STEP)
}
#endif

#ifdef ALONE_BACKWARD
kernel void act_backward(INPUT(dy), INPUT(x), OUTPUT(dx), const Walk walk) {
#define STEP(o, i0, i1)             \
  float slope;                      \
  (void)activate(GET(x, i1), &slope); \
  PUT(dx, o, GET(dy, i0) * slope);
  WALK(walk, 3, STEP)
}
#endif

// `limit`: infinity where nothing is clamped.
static inline float within(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

#ifdef GATED
kernel void act_mul(INPUT(gate), INPUT(up), OUTPUT(y), const Walk walk, const float limit, const float up_offset) {
#define STEP(o, i0, i1)                                              \
  const float x = GET(gate, i0);                                     \
  float slope;                                                       \
  const float value = activate(x > limit ? limit : x, &slope);       \
  PUT(y, o, value * (within(GET(up, i1), limit) + up_offset));
  WALK(walk, 3, STEP)
}
#endif

#ifdef GATED_BACKWARD
kernel void act_mul_backward(INPUT(dy), INPUT(gate), INPUT(up), OUTPUT(dgate), OUTPUT(dup), const Walk walk,
                             const float limit, const float up_offset) {
#define STEP(i0, i1, i2, o0, o1)                                                         \
  const float g = GET(dy, i0);                                                           \
  const float x = GET(gate, i1);                                                         \
  const float u = GET(up, i2);                                                           \
  float slope;                                                                           \
  const float value = activate(x > limit ? limit : x, &slope);                           \
  PUT(dgate, o0, x > limit ? 0.0f : g * (within(u, limit) + up_offset) * slope);         \
  PUT(dup, o1, fabs(u) > limit ? 0.0f : g * value);
  WALK(walk, 5, STEP)
}
#endif
