#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void scale(Call& call) {
  const Tensor& x = input(call, TERN_SCALE_X);
  const double factor = input(call, TERN_SCALE_FACTOR).real.at(0);
  Output y(call, TERN_SCALE_Y);
  for (std::size_t i = 0; i < x.real.size(); ++i) y.add(static_cast<std::int64_t>(i), x.real[i] * factor);
}

}  // namespace tern::ops::ref
