#include "ops/ref/dropout.h"

namespace tern::ops::ref {
namespace {

// An element whose terms are those of a sum: the factors of dropout and alpha are rounded, and the products with them.
struct Sum {
  double value = 0.0;
  double size = 0.0;
  void add(double term) {
    value += term;
    size += std::fabs(term);
  }
  void give(Output& out, std::int64_t i, std::int64_t terms) const {
    out.add(i, value, {.roundings = size, .terms = terms + 3});
  }
};

}  // namespace

void lora_shrink(Call& call) {
  const auto attrs = attrs_of<tern_lora_shrink_attrs>(call);
  const Tensor& x = input(call, TERN_LORA_SHRINK_X);
  const Tensor& a = input(call, TERN_LORA_SHRINK_A);
  const std::vector<double> factors =
      dropout_factors(attrs.rate, attrs.site, x, input(call, TERN_LORA_SHRINK_KEYS), input(call, TERN_LORA_SHRINK_MASK));
  Output h(call, TERN_LORA_SHRINK_H);
  const std::int64_t in = x.size(1);
  const std::int64_t rank = a.size(0);
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    for (std::int64_t j = 0; j < rank; ++j) {
      Sum sum;
      for (std::int64_t i = 0; i < in; ++i) {
        const auto at = static_cast<std::size_t>(r * in + i);
        if (factors[at] != 0.0) sum.add(attrs.alpha * factors[at] * x.real[at] * a.real[static_cast<std::size_t>(j * in + i)]);
      }
      sum.give(h, r * rank + j, in);
    }
  }
}

void lora_shrink_backward(Call& call) {
  const auto attrs = attrs_of<tern_lora_shrink_backward_attrs>(call);
  const Tensor& dh = input(call, TERN_LORA_SHRINK_BACKWARD_DH);
  const Tensor& x = input(call, TERN_LORA_SHRINK_BACKWARD_X);
  const Tensor& a = input(call, TERN_LORA_SHRINK_BACKWARD_A);
  const std::vector<double> factors =
      dropout_factors(attrs.rate, attrs.site, x, input(call, TERN_LORA_SHRINK_BACKWARD_KEYS),
                      input(call, TERN_LORA_SHRINK_BACKWARD_MASK));
  Output dx(call, TERN_LORA_SHRINK_BACKWARD_DX);
  Output da(call, TERN_LORA_SHRINK_BACKWARD_DA);
  const std::int64_t rows = x.size(0);
  const std::int64_t in = x.size(1);
  const std::int64_t rank = a.size(0);
  for (std::int64_t i = 0; i < in; ++i) {
    std::vector<Sum> of_a(static_cast<std::size_t>(rank));
    for (std::int64_t r = 0; r < rows; ++r) {
      const double factor = attrs.alpha * factors[static_cast<std::size_t>(r * in + i)];
      Sum of_x;
      for (std::int64_t j = 0; factor != 0.0 && j < rank; ++j) {
        const double grad = factor * dh.real[static_cast<std::size_t>(r * rank + j)];
        of_x.add(grad * a.real[static_cast<std::size_t>(j * in + i)]);
        of_a[static_cast<std::size_t>(j)].add(grad * x.real[static_cast<std::size_t>(r * in + i)]);
      }
      of_x.give(dx, r * in + i, rank);
    }
    for (std::int64_t j = 0; j < rank; ++j) of_a[static_cast<std::size_t>(j)].give(da, j * in + i, rows);
  }
}

}  // namespace tern::ops::ref
