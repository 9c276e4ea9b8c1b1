#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void axpby(Call& call) {
  const auto attrs = attrs_of<tern_axpby_attrs>(call);
  const Tensor& x = input(call, TERN_AXPBY_X);
  const Tensor& y = input(call, TERN_AXPBY_Y);
  Output out(call, TERN_AXPBY_OUT);
  for (std::size_t i = 0; i < x.real.size(); ++i) {
    const double ax = static_cast<double>(attrs.a) * x.real[i];
    const double by = y.present() ? static_cast<double>(attrs.b) * y.real[i] : 0.0;
    out.add(static_cast<std::int64_t>(i), ax + by, {.roundings = std::fabs(ax) + std::fabs(by)});
  }
}

}  // namespace tern::ops::ref
