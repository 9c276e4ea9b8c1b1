// sgd, lion, adamw: one pass over parameter, state and gradient.
#include "backends/cuda/cu/dense.cuh"

// What the op wants as fp32 that replaces: no branch by its dtype is left.
DEVICE Tensor floats(const Tensor& tensor) { return {tensor.at, F32, 0}; }

KERNEL(sgd)(Tensor param, Tensor buf, Tensor grad, Tensor hyper, Dense dense, long hyper_stride) {
  const float* const h = hyper.as<float>();
  const float lr = h[0], keep = h[hyper_stride], momentum = h[2 * hyper_stride], rest = h[3 * hyper_stride];
  const float decay = h[4 * hyper_stride], take_grad = h[5 * hyper_stride], take_buf = h[6 * hyper_stride];
  const float factor = h[7 * hyper_stride];
  const bool buffered = buf.here();
  const Tensor of[] = {floats(param), floats(buf), grad};
  dense_over<3, 7u, 3u, true>(dense, of, [&](float* v) {
    const float g = v[2] * factor + decay * v[0];
    float move = take_grad * g;
    if (buffered) {
      v[1] = momentum * v[1] + rest * g;
      move += take_buf * v[1];
    }
    v[0] = keep * v[0] - lr * move;
  });
}

// NaN stays NaN.
KERNEL(lion)(Tensor param, Tensor m, Tensor grad, Tensor hyper, Dense dense, long hyper_stride) {
  const float* const h = hyper.as<float>();
  const float lr = h[0], keep = h[hyper_stride], beta1 = h[2 * hyper_stride], rest1 = h[3 * hyper_stride];
  const float beta2 = h[4 * hyper_stride], rest2 = h[5 * hyper_stride], factor = h[6 * hyper_stride];
  const Tensor of[] = {floats(param), floats(m), grad};
  dense_over<3, 7u, 3u, true>(dense, of, [&](float* v) {
    const float g = v[2] * factor;
    const float sum = beta1 * v[1] + rest1 * g;
    const float direction = sum > 0.0f ? 1.0f : sum < 0.0f ? -1.0f : sum;
    v[0] = keep * v[0] - lr * direction;
    v[1] = beta2 * v[1] + rest2 * g;
  });
}

KERNEL_BOUNDED(adamw, 128, 5)(Tensor param, Tensor m, Tensor v, Tensor grad, Tensor hyper,
                               Tensor copy, Dense dense, long hyper_stride) {
  const float* const h = hyper.as<float>();
  const float lr = h[0], beta1 = h[hyper_stride], beta2 = h[2 * hyper_stride];
  const float rest1 = h[3 * hyper_stride], rest2 = h[4 * hyper_stride], eps = h[5 * hyper_stride];
  const float keep = 1.0f - lr * h[6 * hyper_stride];
  const float correction1 = h[7 * hyper_stride], correction2 = h[8 * hyper_stride], factor = h[9 * hyper_stride];
  const Tensor of[] = {floats(param), floats(m), floats(v), grad, copy};
  dense_over<5, 15u, 23u, true>(dense, of, [&](float* x) {
    const float g = x[3] * factor;
    x[1] = beta1 * x[1] + rest1 * g;
    x[2] = beta2 * x[2] + rest2 * g * g;
    x[0] = x[0] * keep - lr * (x[1] / correction1) / (sqrtf(x[2] / correction2) + eps);
    x[4] = x[0];
  });
}
