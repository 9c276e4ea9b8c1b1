#include <algorithm>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void all_finite(Call& call) {
  const Tensor& x = input(call, TERN_ALL_FINITE_X);
  Tensor& out = call.args[TERN_ALL_FINITE_OUT];
  const bool accumulate = (call.accumulate >> TERN_ALL_FINITE_OUT & 1U) != 0;
  const bool before = !accumulate || out.integer.at(0) != 0;
  const bool finite = std::all_of(x.real.begin(), x.real.end(), [](double value) { return std::isfinite(value); });
  out.integer.assign(1, before && finite ? 1 : 0);
}

}  // namespace tern::ops::ref
