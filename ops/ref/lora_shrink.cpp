#include "base/philox.h"
#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

// What dropout multiplies x [rows, in] by: 0, or 1 / (1 - rate).
template <typename Attrs>
std::vector<double> dropout_factors(const Attrs& attrs, const Tensor& x, const Tensor& keys, const Tensor& mask) {
  std::vector<double> out(x.real.size(), 1.0 / (1.0 - static_cast<double>(attrs.rate)));
  for (std::int64_t r = 0; keys.present() && r < x.size(0); ++r) {
    const auto key = static_cast<std::uint64_t>(keys.integer[static_cast<std::size_t>(r)]);
    PhiloxBlock bits{};
    for (std::int64_t c = 0; c < x.size(1); ++c) {
      if (c % 4 == 0)
        bits = philox(key, {static_cast<std::uint32_t>(c / 4), static_cast<std::uint32_t>(attrs.site), 0, 0});
      const auto i = static_cast<std::size_t>(r * x.size(1) + c);
      const bool keep =
          mask.present() ? mask.integer[i] != 0 : uniform24(bits[static_cast<std::size_t>(c % 4)]) >= attrs.rate;
      if (!keep) out[i] = 0.0;
    }
  }
  return out;
}

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
      dropout_factors(attrs, x, input(call, TERN_LORA_SHRINK_KEYS), input(call, TERN_LORA_SHRINK_MASK));
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
  const std::vector<double> factors = dropout_factors(attrs, x, input(call, TERN_LORA_SHRINK_BACKWARD_KEYS),
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
