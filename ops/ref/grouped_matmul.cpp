#include "ops/grouped_matmul.h"

#include "ops/ref/product.h"

namespace tern::ops::ref {

void grouped_matmul(Call& call) {
  const auto attrs = attrs_of<tern_grouped_matmul_attrs>(call);
  const Tensor& x = input(call, TERN_GROUPED_MATMUL_X);
  const Tensor& w = input(call, TERN_GROUPED_MATMUL_W);
  const Tensor& bias = input(call, TERN_GROUPED_MATMUL_BIAS);
  const Tensor& offsets = input(call, TERN_GROUPED_MATMUL_OFFSETS);
  Output y(call, TERN_GROUPED_MATMUL_Y);
  const GroupedSizes sizes = grouped_sizes(w.desc, offsets.desc);
  const bool forward = attrs.transpose_w != 0;
  Product product;
  product.k = forward ? sizes.in : sizes.out;
  product.n = forward ? sizes.out : sizes.in;
  product.transpose_b = forward;
  product.compute = attrs.compute;
  for (std::int64_t e = 0; e < sizes.experts; ++e) {
    const std::int64_t first = offsets.integer[static_cast<std::size_t>(e)];
    product.m = offsets.integer[static_cast<std::size_t>(e + 1)] - first;
    product.run(x.real.data() + first * product.k, w.real.data() + e * sizes.out * sizes.in,
                bias.present() ? bias.real.data() + e * sizes.out : nullptr, y, first * product.n);
  }
}

void grouped_matmul_backward(Call& call) {
  const auto attrs = attrs_of<tern_grouped_matmul_backward_attrs>(call);
  const Tensor& dy = input(call, TERN_GROUPED_MATMUL_BACKWARD_DY);
  const Tensor& x = input(call, TERN_GROUPED_MATMUL_BACKWARD_X);
  const Tensor& offsets = input(call, TERN_GROUPED_MATMUL_BACKWARD_OFFSETS);
  Output dw(call, TERN_GROUPED_MATMUL_BACKWARD_DW);
  Output dbias(call, TERN_GROUPED_MATMUL_BACKWARD_DBIAS);
  Product product;
  product.m = dy.size(2);
  product.n = x.size(2);
  product.transpose_a = true;
  product.compute = attrs.compute;
  for (std::int64_t e = 0; e + 1 < offsets.size(0); ++e) {
    const std::int64_t first = offsets.integer[static_cast<std::size_t>(e)];
    product.k = offsets.integer[static_cast<std::size_t>(e + 1)] - first;
    if (dw.present()) {
      product.run(dy.real.data() + first * product.m, x.real.data() + first * product.n, nullptr, dw,
                  e * product.m * product.n);
    }
    for (std::int64_t r = first; dbias.present() && r < first + product.k; ++r) {
      for (std::int64_t j = 0; j < product.m; ++j) {
        dbias.add(e * product.m + j, dy.real[static_cast<std::size_t>(r * product.m + j)]);
      }
    }
  }
}

}  // namespace tern::ops::ref
