kernel void sgd(OUTPUT(param), OUTPUT(buf), INPUT(grad), INPUT(hyper), const Walk walk, const long hyper_stride) {
  const global float* const h = AS(float, hyper);
  const float lr = h[0], keep = h[hyper_stride], momentum = h[2 * hyper_stride], rest = h[3 * hyper_stride];
  const float decay = h[4 * hyper_stride], take_grad = h[5 * hyper_stride], take_buf = h[6 * hyper_stride];
  const float factor = h[7 * hyper_stride];
  global float* const params = AS_OUT(float, param);
#if HAS_buf
  global float* const buffers = AS_OUT(float, buf);
#define MOVE(i, g)                                     \
  buffers[i] = momentum * buffers[i] + rest * (g);     \
  move += take_buf * buffers[i];
#else
#define MOVE(i, g)
#endif
#define STEP(p, i1, i2)                                    \
  const float g = GET(grad, i2) * factor + decay * params[p]; \
  float move = take_grad * g;                              \
  MOVE(i1, g)                                              \
  params[p] = keep * params[p] - lr * move;
  WALK(walk, 3, STEP)
}
