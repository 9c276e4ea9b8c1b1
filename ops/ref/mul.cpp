#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void mul(Call& call) {
  const Tensor& x = input(call, TERN_MUL_X);
  const Tensor& y = input(call, TERN_MUL_Y);
  Output out(call, TERN_MUL_OUT);
  for (std::size_t i = 0; i < x.real.size(); ++i) out.add(static_cast<std::int64_t>(i), x.real[i] * y.real[i]);
}

}  // namespace tern::ops::ref
