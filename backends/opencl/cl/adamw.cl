kernel void adamw(OUTPUT(param), OUTPUT(m), OUTPUT(v), INPUT(grad), INPUT(hyper), OUTPUT(copy), const Walk walk,
                  const long hyper_stride) {
  const global float* const h = AS(float, hyper);
  const float lr = h[0], beta1 = h[hyper_stride], beta2 = h[2 * hyper_stride];
  const float rest1 = h[3 * hyper_stride], rest2 = h[4 * hyper_stride], eps = h[5 * hyper_stride];
  const float keep = 1.0f - lr * h[6 * hyper_stride];
  const float correction1 = h[7 * hyper_stride], correction2 = h[8 * hyper_stride], factor = h[9 * hyper_stride];
  global float* const params = AS_OUT(float, param);
  global float* const means = AS_OUT(float, m);
  global float* const squares = AS_OUT(float, v);
#define STEP(p, i1, i2, i3, i4)                                             \
  const float g = GET(grad, i3) * factor;                                   \
  const float mean = beta1 * means[i1] + rest1 * g;                         \
  const float square = beta2 * squares[i2] + rest2 * g * g;                 \
  const float root = sqrt(square / correction2) + eps;                      \
  const float value = params[p] * keep - lr * (mean / correction1) / root;  \
  means[i1] = mean;                                                         \
  squares[i2] = square;                                                     \
  params[p] = value;                                                        \
  if (HAS_copy) PUT(copy, i4, value);
  WALK(walk, 5, STEP)
}
