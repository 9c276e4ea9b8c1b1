#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void lora_segmented(Call& call) {
  const Tensor& x = input(call, TERN_LORA_SEGMENTED_X);
  const Tensor& a = input(call, TERN_LORA_SEGMENTED_A);
  const Tensor& b = input(call, TERN_LORA_SEGMENTED_B);
  const Tensor& slots = input(call, TERN_LORA_SEGMENTED_SLOTS);
  Output y(call, TERN_LORA_SEGMENTED_Y);
  const std::int64_t in = x.size(1);
  const std::int64_t rank = a.size(1);
  const std::int64_t out = b.size(1);
  std::vector<double> low(static_cast<std::size_t>(rank));
  std::vector<double> size(low.size());  // of the terms behind each of low
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    const std::int64_t slot = slots.integer[static_cast<std::size_t>(r)];
    if (slot == a.size(0)) continue;
    for (std::int64_t j = 0; j < rank; ++j) {
      double& sum = low[static_cast<std::size_t>(j)] = 0.0;
      double& terms = size[static_cast<std::size_t>(j)] = 0.0;
      for (std::int64_t i = 0; i < in; ++i) {
        const double term =
            a.real[static_cast<std::size_t>((slot * rank + j) * in + i)] * x.real[static_cast<std::size_t>(r * in + i)];
        sum += term;
        terms += std::fabs(term);
      }
    }
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = 0.0;
      double terms = 0.0;
      for (std::int64_t j = 0; j < rank; ++j) {
        const double factor = b.real[static_cast<std::size_t>((slot * out + o) * rank + j)];
        sum += factor * low[static_cast<std::size_t>(j)];
        terms += std::fabs(factor) * size[static_cast<std::size_t>(j)];
      }
      y.add(r * out + o, sum, {.roundings = terms, .terms = in + rank + 3});
    }
  }
}

}  // namespace tern::ops::ref
