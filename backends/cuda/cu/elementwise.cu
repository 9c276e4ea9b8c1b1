// fill, scale, mul, axpby: y's bit comes first.
#include "backends/cuda/cu/dense.cuh"

KERNEL(fill)(Tensor y, Dense dense, float value) {
  const Tensor of[] = {y};
  dense_over<1, 0u, 1u>(dense, of, [&](float* x) { x[0] = value; });
}

KERNEL(scale)(Tensor x, Tensor factor, Tensor y, Dense dense) {
  const float by = *factor.as<float>();
  const Tensor of[] = {y, x};
  dense_over<2, 2u, 1u>(dense, of, [&](float* v) { v[0] = v[1] * by; });
}

KERNEL(mul)(Tensor x, Tensor y, Tensor out, Dense dense) {
  const Tensor of[] = {out, x, y};
  dense_over<3, 6u, 1u>(dense, of, [](float* v) { v[0] = v[1] * v[2]; });
}

KERNEL(axpby)(Tensor x, Tensor y, Tensor out, Dense dense, float a, float b) {
  const Tensor of[] = {out, x, y};
  const bool both = y.here();
  dense_over<3, 6u, 1u>(dense, of, [&](float* v) { v[0] = both ? a * v[1] + b * v[2] : a * v[1]; });
}
