#include "nn/recurrent_state.h"

#include "nn/activation.h"
#include "nn/side_by_side.h"
#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/causal_conv1d.h"
#include "ops/gather_rows.h"

namespace tern::nn {
namespace {

Value replay_tensor(Context& context, const std::string& module, const ReplaySpec& spec, const TokenInputs& inputs) {
  return context.state(replay_name(inputs.cache_scope, module, spec.name),
                       make_desc(context.options().activations, {inputs.replay_rows, spec.width}));
}

}  // namespace

void leave_for_replay(Context& context, const std::string& module, const ReplaySpec& spec, const TokenInputs& inputs,
                      Value x) {
  if (inputs.replay_rows == 0) return;
  graph::Graph& graph = context.graph();
  const Value rows = ops::gather_rows(graph, x, inputs.rows, context.options().needs);
  const Value all = replay_tensor(context, module, spec, inputs);
  const TensorDesc& some = graph.desc(rows);
  const Value place =
      graph.view(all, ops::rows_like(make_desc(graph.desc(all).dtype, {some.shape[0], some.shape[1]}), some), 0);
  put_columns(context, rows, place, 0);
}

Value left_for_replay(Context& context, const std::string& module, const ReplaySpec& spec, const TokenInputs& inputs) {
  return ops::gather_rows(context.graph(), replay_tensor(context, module, spec, inputs), inputs.replayed,
                          context.options().needs);
}

Value convolved(Context& context, const std::string& module, const TokenInputs& inputs, const StateSpec& state,
                Value x) {
  ops::CausalConv1dOptions options;
  if (context.has(module + ".conv1d.bias")) options.bias = context.weight(module + ".conv1d.bias");
  options.max_seqlen = static_cast<std::int32_t>(inputs.max_seqlen);
  options.before = recurrent_state(context, module, inputs, state);
  options.out = context.options().activations;
  options.needs = context.options().needs;
  const Value w = context.weight(module + ".conv1d.weight");
  const Value y = ops::causal_conv1d(context.graph(), x, w, inputs.cu_seqlens, options).y;
  return activation(context, y, TERN_ACT_SILU);
}

Value time_step(Context& context, const std::string& module, Value x) {
  graph::Graph& graph = context.graph();
  ops::AxpbyOptions sum;
  sum.out = TERN_F32;
  sum.needs = context.options().needs;
  const Value bias = ops::broadcast_rows(graph, context.weight(module + ".dt_bias"), graph.desc(x));
  return activation(context, ops::axpby(graph, x, bias, sum), TERN_ACT_SOFTPLUS, TERN_F32);
}

Value decay_rate(Context& context, const std::string& module) {
  ops::AxpbyOptions minus;
  minus.a = -1.0F;
  minus.needs = context.options().needs;
  const Value size = activation(context, context.weight(module + ".A_log"), TERN_ACT_EXP, TERN_F32);
  return ops::axpby(context.graph(), size, {}, minus);
}

}  // namespace tern::nn
