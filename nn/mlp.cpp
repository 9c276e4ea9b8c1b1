#include "nn/mlp.h"

#include "nn/linear.h"
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

// Columns [first, first + width) of x [rows, columns].
Value columns(Context& context, Value x, std::int64_t first, std::int64_t width) {
  const TensorDesc& whole = context.graph().desc(x);
  TensorDesc part = ops::rows_like(make_desc(whole.dtype, {whole.shape[0], width}), whole);
  part.strides[0] = whole.strides[0];
  part.strides[1] = whole.strides[1];
  return context.graph().view(x, part, first * whole.strides[1]);
}

}  // namespace

Value gated_mlp(Context& context, const std::string& module, Value x, tern_act act) {
  const Value gate = linear(context, module + ".gate_proj", x);
  const Value up = linear(context, module + ".up_proj", x);
  return linear(context, module + ".down_proj", act_mul(context, gate, up, act));
}

Value fused_gated_mlp(Context& context, const std::string& module, Value x, tern_act act) {
  const Value both = linear(context, module + ".gate_up_proj", x);
  const std::int64_t width = context.graph().desc(both).shape[1] / 2;
  const Value gate = columns(context, both, 0, width);
  const Value up = columns(context, both, width, width);
  return linear(context, module + ".down_proj", act_mul(context, gate, up, act));
}

}  // namespace tern::nn
