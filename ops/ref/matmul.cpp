#include "ops/ref/product.h"

namespace tern::ops::ref {

void matmul(Call& call) {
  const auto attrs = attrs_of<tern_matmul_attrs>(call);
  const Tensor& a = input(call, TERN_MATMUL_A);
  const Tensor& b = input(call, TERN_MATMUL_B);
  const Tensor& bias = input(call, TERN_MATMUL_BIAS);
  Output out(call, TERN_MATMUL_OUT);
  const int first = a.desc.rank - 2;
  const std::int64_t batch = first == 1 ? a.size(0) : 1;
  Product product;
  product.m = a.size(attrs.transpose_a != 0 ? first + 1 : first);
  product.k = a.size(attrs.transpose_a != 0 ? first : first + 1);
  product.n = b.size(attrs.transpose_b != 0 ? first : first + 1);
  product.transpose_a = attrs.transpose_a != 0;
  product.transpose_b = attrs.transpose_b != 0;
  product.compute = attrs.compute;
  product.alpha = attrs.alpha;
  for (std::int64_t i = 0; i < batch; ++i) {
    product.run(a.real.data() + i * product.m * product.k, b.real.data() + i * product.k * product.n,
                bias.present() ? bias.real.data() : nullptr, out, i * product.m * product.n);
  }
}

}  // namespace tern::ops::ref
