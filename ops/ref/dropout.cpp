#include "base/philox.h"
#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void dropout(Call& call) {
  const auto attrs = attrs_of<tern_dropout_attrs>(call);
  const Tensor& x = input(call, TERN_DROPOUT_X);
  const Tensor& keys = input(call, TERN_DROPOUT_KEYS);
  const Tensor& mask = input(call, TERN_DROPOUT_MASK);
  Output y(call, TERN_DROPOUT_Y);
  const double factor = 1.0 / (1.0 - static_cast<double>(attrs.rate));
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    const auto key = static_cast<std::uint64_t>(keys.integer[static_cast<std::size_t>(r)]);
    PhiloxBlock bits{};
    for (std::int64_t c = 0; c < x.size(1); ++c) {
      if (c % 4 == 0)
        bits = philox(key, {static_cast<std::uint32_t>(c / 4), static_cast<std::uint32_t>(attrs.site), 0, 0});
      const auto i = static_cast<std::size_t>(r * x.size(1) + c);
      const bool keep =
          mask.present() ? mask.integer[i] != 0 : uniform24(bits[static_cast<std::size_t>(c % 4)]) >= attrs.rate;
      if (keep) y.add(static_cast<std::int64_t>(i), x.real[i] * factor);
    }
  }
}

}  // namespace tern::ops::ref
