#include "nn/activation.h"

#include "ops/act.h"

namespace tern::nn {

Value activation(Context& context, Value x, tern_act kind, tern_dtype out) {
  ops::ActOptions options;
  options.kind = kind;
  options.out = out;
  options.needs = context.options().needs;
  return ops::act(context.graph(), x, options);
}

Value activation(Context& context, Value x, tern_act kind) {
  return activation(context, x, kind, context.options().activations);
}

}  // namespace tern::nn
