#include "nn/mlp.h"

#include "nn/linear.h"
#include "ops/act_mul.h"

namespace tern::nn {

Value gated_mlp(Context& context, const std::string& module, Value x, tern_act act) {
  const Value gate = linear(context, module + ".gate_proj", x);
  const Value up = linear(context, module + ".up_proj", x);
  ops::ActMulOptions options;
  options.kind = act;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return linear(context, module + ".down_proj", ops::act_mul(context.graph(), gate, up, options));
}

}  // namespace tern::nn
