// NaN stays NaN.
kernel void lion(OUTPUT(param), OUTPUT(m), INPUT(grad), INPUT(hyper), const Walk walk, const long hyper_stride) {
  const global float* const h = AS(float, hyper);
  const float lr = h[0], keep = h[hyper_stride], beta1 = h[2 * hyper_stride], rest1 = h[3 * hyper_stride];
  const float beta2 = h[4 * hyper_stride], rest2 = h[5 * hyper_stride], factor = h[6 * hyper_stride];
  global float* const params = AS_OUT(float, param);
  global float* const means = AS_OUT(float, m);
#define STEP(p, i1, i2)                                              \
  const float g = GET(grad, i2) * factor;                            \
  const float sum = beta1 * means[i1] + rest1 * g;                   \
  const float direction = sum > 0.0f ? 1.0f : sum < 0.0f ? -1.0f : sum; \
  params[p] = keep * params[p] - lr * direction;                     \
  means[i1] = beta2 * means[i1] + rest2 * g;
  WALK(walk, 3, STEP)
}
