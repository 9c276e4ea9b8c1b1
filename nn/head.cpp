#include "nn/head.h"

#include "nn/linear.h"
#include "ops/axpby.h"
#include "ops/softcap.h"

namespace tern::nn {
namespace {

// The scale goes onto the rows, of which there are fewer numbers than logits; so does its gradient.
Value scaled(Context& context, const Head& head, Value rows) {
  if (head.scale == 1.0F) return rows;
  ops::AxpbyOptions options;
  options.a = head.scale;
  options.needs = context.options().needs;
  return ops::axpby(context.graph(), rows, {}, options);
}

}  // namespace

Value logits(Context& context, const Head& head, Value rows) {
  const Value z = product(context, scaled(context, head, rows), context.weight(head.weight), {}, TERN_F32,
                          context.options().compute);
  if (head.softcap == 0.0F) return z;
  return ops::softcap(context.graph(), z, {.cap = head.softcap, .needs = context.options().needs});
}

ops::LinearCrossEntropyOut cross_entropy(Context& context, const Head& head, Value rows, Value targets, Value weights,
                                         ops::LinearCrossEntropyOptions options) {
  options.compute = context.options().compute;
  options.softcap = head.softcap;
  options.needs = context.options().needs;
  return ops::linear_cross_entropy(context.graph(), scaled(context, head, rows), context.weight(head.weight), targets,
                                   weights, options);
}

}  // namespace tern::nn
