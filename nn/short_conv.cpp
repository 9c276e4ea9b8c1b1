#include "nn/short_conv.h"

#include "nn/linear.h"
#include "nn/recurrent_state.h"
#include "ops/build.h"
#include "ops/causal_conv1d.h"
#include "ops/mul.h"

namespace tern::nn {
namespace {

StateSpec conv_state(std::int64_t kernel, std::int64_t hidden) { return {"conv_state", {kernel - 1, hidden}}; }

ReplaySpec conv_replay(std::int64_t hidden) { return {"gated", hidden}; }

// The convolution of the gated stream, [tokens, hidden].
Value convolved_stream(Context& context, const std::string& module, std::int64_t kernel, const TokenInputs& inputs,
                       Value gated) {
  ops::CausalConv1dOptions options;
  options.max_seqlen = static_cast<std::int32_t>(inputs.max_seqlen);
  options.out = context.options().activations;
  options.needs = context.options().needs;
  if (context.has(module + ".conv.bias")) options.bias = context.weight(module + ".conv.bias");
  options.before = recurrent_state(context, module, inputs, conv_state(kernel, context.graph().desc(gated).shape[1]));
  const Value weight = context.weight(module + ".conv.weight");
  return ops::causal_conv1d(context.graph(), gated, weight, inputs.cu_seqlens, options).y;
}

Value product_of(Context& context, Value x, Value y) {
  ops::MulOptions options;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return ops::mul(context.graph(), x, y, options);
}

}  // namespace

Value short_conv(Context& context, const std::string& module, std::int64_t kernel, const TokenInputs& inputs, Value x) {
  graph::Graph& graph = context.graph();
  const std::int64_t hidden = graph.desc(x).shape[1];
  const Value all = linear(context, module + ".in_proj", x);
  const Value gated =
      product_of(context, ops::columns(graph, all, 0, hidden), ops::columns(graph, all, 2 * hidden, hidden));
  leave_for_replay(context, module, conv_replay(hidden), inputs, gated);
  const Value y = convolved_stream(context, module, kernel, inputs, gated);
  return linear(context, module + ".out_proj", product_of(context, ops::columns(graph, all, hidden, hidden), y));
}

CacheSpec short_conv_cache(const std::string& module, std::int64_t kernel, std::int64_t hidden) {
  CacheSpec spec;
  spec.kind = CacheKind::state;
  spec.module = module;
  spec.states = {conv_state(kernel, hidden)};
  spec.replays = {conv_replay(hidden)};
  spec.replay = [module, kernel, hidden](Context& context, const TokenInputs& inputs) {
    const Value gated = left_for_replay(context, module, conv_replay(hidden), inputs);
    (void)convolved_stream(context, module, kernel, inputs, gated);
  };
  return spec;
}

}  // namespace tern::nn
