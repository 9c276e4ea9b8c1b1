#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void softcap(Call& call) {
  const double cap = attrs_of<tern_softcap_attrs>(call).cap;
  const Tensor& x = input(call, TERN_SOFTCAP_X);
  Output y(call, TERN_SOFTCAP_Y);
  for (std::size_t i = 0; i < x.real.size(); ++i) {
    const double t = std::tanh(x.real[i] / cap);
    const double slope = 1.0 - t * t;
    // 8: tanh; 1: the product with cap; the quotient's rounding comes through by the slope
    const double error = 9.0 * std::fabs(cap * t) + (slope > 0.0 ? std::fabs(x.real[i]) * slope : 0.0);
    y.add(static_cast<std::int64_t>(i), cap * t, {.roundings = error});
  }
}

}  // namespace tern::ops::ref
