#include "ops/ref/product.h"

namespace tern::ops::ref {

void matmul_q(Call& call) {
  const auto attrs = attrs_of<tern_matmul_q_attrs>(call);
  const Tensor& x = input(call, TERN_MATMUL_Q_X);
  const Tensor& w = input(call, TERN_MATMUL_Q_W);
  const Tensor& bias = input(call, TERN_MATMUL_Q_BIAS);
  Output y(call, TERN_MATMUL_Q_Y);
  Product product;
  product.m = x.size(0);
  product.k = x.size(1);
  product.n = w.size(attrs.transpose_w != 0 ? 0 : 1);
  product.transpose_b = attrs.transpose_w != 0;
  product.compute = attrs.compute;
  product.run(x.real.data(), w.real.data(), bias.present() ? bias.real.data() : nullptr, y, 0);
}

}  // namespace tern::ops::ref
