#include "nn/mlp.h"

#include "base/strings.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/scale.h"
#include "ops/act_mul.h"
#include "ops/build.h"

namespace tern::nn {
namespace {

Value act_mul(Context& context, Value gate, Value up, tern_act act) {
  ops::ActMulOptions options;
  options.kind = act;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return ops::act_mul(context.graph(), gate, up, options);
}

}  // namespace

Value gated_mlp(Context& context, const std::string& module, Value x, tern_act act, const MlpParts& parts) {
  const Value gate = scaled(context, linear(context, cat(module, ".", parts.gate), x), parts.gate_scale);
  const Value up = linear(context, cat(module, ".", parts.up), x);
  return linear(context, cat(module, ".", parts.down), act_mul(context, gate, up, act));
}

Value fused_gated_mlp(Context& context, const std::string& module, Value x, const FusedMlpParts& parts) {
  const Value both = linear(context, cat(module, ".", parts.gate_up), x);
  const std::int64_t width = context.graph().desc(both).shape[1] / 2;
  const Value gate = ops::columns(context.graph(), both, 0, width);
  const Value up = ops::columns(context.graph(), both, width, width);
  return linear(context, cat(module, ".", parts.down), act_mul(context, gate, up, parts.act));
}

Value plain_mlp(Context& context, const std::string& up, const std::string& down, Value x, tern_act act) {
  return linear(context, down, activation(context, linear(context, up, x), act));
}

}  // namespace tern::nn
