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
  // One rounding, named: a compiler that chose it in one place and not in another would make bits depend on alignment.
  dense_over<3, 6u, 1u>(dense, of, [&](float* v) { v[0] = both ? fmaf(a, v[1], b * v[2]) : a * v[1]; });
}
