#include "nn/mamba2.h"

#include "nn/heads.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/recurrent_state.h"
#include "nn/rope.h"
#include "nn/scale.h"
#include "ops/act_mul.h"
#include "ops/build.h"
#include "ops/fill.h"
#include "ops/mul.h"
#include "ops/selective_scan.h"

namespace tern::nn {
namespace {

StateSpec conv_state(const Mamba2Config& config) { return {"conv_state", {config.kernel - 1, config.channels()}}; }
StateSpec scan_state(const Mamba2Config& config) {
  return {"ssm_state", {config.heads, config.state_size, config.head_dim}};
}

// x with B and C before the convolution, and the steps of time.
ReplaySpec mixed_replay(const Mamba2Config& config) { return {"mixed", config.channels()}; }
ReplaySpec time_replay(const Mamba2Config& config) { return {"dt", config.heads}; }

// The gate, x with B and C, and the steps of time, each times its scale: [tokens, inner + channels + heads].
Value projected(Context& context, const std::string& module, const Mamba2Config& config, Value x) {
  graph::Graph& graph = context.graph();
  const Value all = linear(context, module + ".in_proj", scaled(context, x, config.in_scale));
  if (config.scales == Mamba2Config{}.scales) return all;
  const std::int64_t of_states = config.groups * config.state_size;
  const std::array<std::int64_t, 5> sizes = {config.inner(), config.inner(), of_states, of_states, config.heads};
  const Value vector = graph.buffer(make_desc(TERN_F32, {config.inner() + config.channels() + config.heads}));
  std::int64_t first = 0;
  for (std::size_t part = 0; part < sizes.size(); ++part) {
    ops::FillOptions fill;
    fill.at = graph.view(graph.latest(vector), make_desc(TERN_F32, {sizes[part]}), first);
    fill.needs = context.options().needs;
    (void)ops::fill(graph, {}, static_cast<float>(config.scales[part]), fill);
    first += sizes[part];
  }
  ops::MulOptions product;
  product.out = context.options().activations;
  product.needs = context.options().needs;
  return ops::mul(graph, all, ops::broadcast_rows(graph, graph.latest(vector), graph.desc(all)), product);
}

// What each head's state gives of x, B and C, [tokens, channels]: [tokens, heads, head_dim].
Value scanned(Context& context, const std::string& module, const Mamba2Config& config, const TokenInputs& inputs,
              Value unmixed, Value dt) {
  const Value mixed = convolved(context, module, inputs, conv_state(config), unmixed);
  const std::int64_t of_states = config.groups * config.state_size;
  ops::SelectiveScanInputs scan;
  scan.x = heads_of(context, mixed, 0, config.heads, config.head_dim);
  scan.dt = time_step(context, module, dt);
  scan.a = decay_rate(context, module);
  scan.b = heads_of(context, mixed, config.inner(), config.groups, config.state_size);
  scan.c = heads_of(context, mixed, config.inner() + of_states, config.groups, config.state_size);
  scan.d = context.weight(module + ".D");
  scan.cu_seqlens = inputs.cu_seqlens;
  ops::SelectiveScanOptions options;
  options.max_seqlen = static_cast<std::int32_t>(inputs.max_seqlen);
  options.before = recurrent_state(context, module, inputs, scan_state(config));
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return ops::selective_scan(context.graph(), scan, options).out;
}

// y [tokens, inner] by the gate.
Value gated(Context& context, Value gate, Value y) {
  ops::ActMulOptions options;
  options.kind = TERN_ACT_SILU;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return ops::act_mul(context.graph(), gate, y, options);
}

// The norm over each group's features, [tokens, inner].
Value group_norm(Context& context, const std::string& module, const Mamba2Config& config, Value x) {
  if (config.groups == 1) return branch_norm(context, module + ".norm", config.eps, x);
  graph::Graph& graph = context.graph();
  const Value groups = heads_of(context, x, 0, config.groups, config.inner() / config.groups);
  const Value normal = ops::as_matrix(graph, norm_heads(context, {"", config.eps, 1.0F}, groups));
  ops::MulOptions product;
  product.out = context.options().activations;
  product.needs = context.options().needs;
  const Value weight = context.weight(module + ".norm.weight");
  return ops::mul(graph, normal, ops::broadcast_rows(graph, weight, graph.desc(normal)), product);
}

}  // namespace

Value mamba2(Context& context, const std::string& module, const Mamba2Config& config, const TokenInputs& inputs,
             Value x) {
  graph::Graph& graph = context.graph();
  const Value all = projected(context, module, config, x);
  const Value gate = ops::columns(graph, all, 0, config.inner());
  const Value mixed = ops::columns(graph, all, config.inner(), config.channels());
  const Value dt = ops::columns(graph, all, config.inner() + config.channels(), config.heads);
  leave_for_replay(context, module, mixed_replay(config), inputs, mixed);
  leave_for_replay(context, module, time_replay(config), inputs, dt);
  Value y = ops::as_matrix(graph, scanned(context, module, config, inputs, mixed, dt));
  if (config.norm == Mamba2Config::Norm::before_gate) y = group_norm(context, module, config, y);
  y = gated(context, gate, y);
  if (config.norm == Mamba2Config::Norm::after_gate) y = group_norm(context, module, config, y);
  return linear(context, module + ".out_proj", y);
}

CacheSpec mamba2_cache(const std::string& module, const Mamba2Config& config) {
  CacheSpec spec;
  spec.kind = CacheKind::state;
  spec.module = module;
  spec.states = {conv_state(config), scan_state(config)};
  spec.replays = {mixed_replay(config), time_replay(config)};
  spec.replay = [module, config](Context& context, const TokenInputs& inputs) {
    const Value mixed = left_for_replay(context, module, mixed_replay(config), inputs);
    (void)scanned(context, module, config, inputs, mixed,
                  left_for_replay(context, module, time_replay(config), inputs));
  };
  return spec;
}

}  // namespace tern::nn
