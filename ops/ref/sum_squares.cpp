#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void sum_squares(Call& call) {
  const Tensor& x = input(call, TERN_SUM_SQUARES_X);
  Output out(call, TERN_SUM_SQUARES_OUT);
  for (double value : x.real) out.add(0, value * value);
}

}  // namespace tern::ops::ref
