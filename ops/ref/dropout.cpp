#include "ops/ref/dropout.h"

#include "base/philox.h"

namespace tern::ops::ref {

std::vector<double> dropout_factors(float rate, std::int32_t site, const Tensor& x, const Tensor& keys,
                                    const Tensor& mask) {
  std::vector<double> out(x.real.size(), 1.0 / (1.0 - static_cast<double>(rate)));
  for (std::int64_t r = 0; keys.present() && r < x.size(0); ++r) {
    const auto key = static_cast<std::uint64_t>(keys.integer[static_cast<std::size_t>(r)]);
    PhiloxBlock bits{};
    for (std::int64_t c = 0; c < x.size(1); ++c) {
      if (c % 4 == 0) bits = philox(key, {static_cast<std::uint32_t>(c / 4), static_cast<std::uint32_t>(site), 0, 0});
      const auto i = static_cast<std::size_t>(r * x.size(1) + c);
      const bool keep =
          mask.present() ? mask.integer[i] != 0 : uniform24(bits[static_cast<std::size_t>(c % 4)]) >= rate;
      if (!keep) out[i] = 0.0;
    }
  }
  return out;
}

void dropout(Call& call) {
  const auto attrs = attrs_of<tern_dropout_attrs>(call);
  const Tensor& x = input(call, TERN_DROPOUT_X);
  const std::vector<double> factors =
      dropout_factors(attrs.rate, attrs.site, x, input(call, TERN_DROPOUT_KEYS), input(call, TERN_DROPOUT_MASK));
  Output y(call, TERN_DROPOUT_Y);
  for (std::size_t i = 0; i < x.real.size(); ++i) {
    if (factors[i] != 0.0) y.add(static_cast<std::int64_t>(i), x.real[i] * factors[i]);
  }
}

}  // namespace tern::ops::ref
