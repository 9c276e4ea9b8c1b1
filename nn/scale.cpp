#include "nn/scale.h"

#include "ops/axpby.h"
#include "ops/cast_copy.h"

namespace tern::nn {

Value scaled(Context& context, Value x, double factor) {
  return factor == 1.0 ? x : weighted_sum(context, factor, x, 0.0, {});
}

Value as_f32(Context& context, Value x) {
  if (context.graph().desc(x).dtype == TERN_F32) return x;
  ops::CastCopyOptions wide;
  wide.needs = context.options().needs;
  return ops::cast_copy(context.graph(), x, wide);
}

Value weighted_sum(Context& context, double a, Value x, double b, Value y) {
  ops::AxpbyOptions sum;
  sum.a = static_cast<float>(a);
  sum.b = static_cast<float>(b);
  sum.out = context.options().activations;
  sum.needs = context.options().needs;
  return ops::axpby(context.graph(), x, y, sum);
}

}  // namespace tern::nn
