#include "nn/gated_delta_net.h"

#include <cmath>
#include <utility>

#include "base/strings.h"
#include "nn/activation.h"
#include "nn/heads.h"
#include "nn/linear.h"
#include "nn/recurrent_state.h"
#include "nn/rope.h"
#include "ops/act_mul.h"
#include "ops/build.h"
#include "ops/gated_delta_rule.h"
#include "ops/mul.h"

namespace tern::nn {
namespace {

constexpr double kUnitEps = 1e-6;  // within the root of the L2 norm of queries and keys

StateSpec conv_state(const GatedDeltaNetConfig& config) {
  return {"conv_state", {config.kernel - 1, config.channels()}};
}
StateSpec delta_state(const GatedDeltaNetConfig& config) {
  return {"recurrent_state", {config.heads, config.key_dim, config.value_dim}};
}

// Two projections of x [tokens, hidden], of `first` and `second` features.
std::pair<Value, Value> projections(Context& context, const std::string& module, const GatedDeltaNetConfig& config,
                                    const char* one, const char* other, std::int64_t first, std::int64_t second,
                                    Value x) {
  if (!config.is_joined) {
    const Value left = linear(context, cat(module, ".in_proj_", one), x);
    return {left, linear(context, cat(module, ".in_proj_", other), x)};
  }
  const Value both = linear(context, cat(module, ".in_proj_", one, other), x);
  return {ops::columns(context.graph(), both, 0, first), ops::columns(context.graph(), both, first, second)};
}

// The log of what each head keeps of its state: - exp(A_log) softplus(a + dt_bias), [tokens, heads] f32.
Value decay(Context& context, const std::string& module, Value a) {
  graph::Graph& graph = context.graph();
  const Value step = time_step(context, module, a);
  ops::MulOptions product;
  product.out = TERN_F32;
  product.needs = context.options().needs;
  return ops::mul(graph, step, ops::broadcast_rows(graph, decay_rate(context, module), graph.desc(step)), product);
}

// All that the states are advanced by: queries, keys and values before the convolution, and what beta and decay are
// made of.
struct StateInputs {
  Value qkv;  // [tokens, channels]
  Value b;    // [tokens, heads]
  Value a;    // [tokens, heads]
};

ReplaySpec qkv_replay(const GatedDeltaNetConfig& config) { return {"qkv", config.channels()}; }
ReplaySpec b_replay(const GatedDeltaNetConfig& config) { return {"b", config.heads}; }
ReplaySpec a_replay(const GatedDeltaNetConfig& config) { return {"a", config.heads}; }

// What each head reads of its state, [tokens, heads, value_dim].
Value read_states(Context& context, const std::string& module, const GatedDeltaNetConfig& config,
                  const TokenInputs& inputs, const StateInputs& in) {
  const BuildOptions& build = context.options();
  const Value mixed = convolved(context, module, inputs, conv_state(config), in.qkv);
  const std::int64_t keys = config.k_heads * config.key_dim;
  ops::GatedDeltaRuleInputs rule;
  rule.q = unit_heads(context, heads_of(context, mixed, 0, config.k_heads, config.key_dim), kUnitEps);
  rule.k = unit_heads(context, heads_of(context, mixed, keys, config.k_heads, config.key_dim), kUnitEps);
  rule.v = heads_of(context, mixed, 2 * keys, config.heads, config.value_dim);
  rule.decay = decay(context, module, in.a);
  rule.beta = activation(context, in.b, TERN_ACT_SIGMOID, TERN_F32);
  rule.cu_seqlens = inputs.cu_seqlens;
  ops::GatedDeltaRuleOptions options;
  options.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.key_dim)));
  options.max_seqlen = static_cast<std::int32_t>(inputs.max_seqlen);
  options.before = recurrent_state(context, module, inputs, delta_state(config));
  options.out = build.activations;
  options.needs = build.needs;
  return ops::gated_delta_rule(context.graph(), rule, options).out;
}

}  // namespace

Value gated_delta_net(Context& context, const std::string& module, const GatedDeltaNetConfig& config,
                      const TokenInputs& inputs, Value x) {
  graph::Graph& graph = context.graph();
  const BuildOptions& build = context.options();
  const auto [qkv, z] =
      projections(context, module, config, "qkv", "z", config.channels(), config.heads * config.value_dim, x);
  const auto [b, a] = projections(context, module, config, "b", "a", config.heads, config.heads, x);
  leave_for_replay(context, module, qkv_replay(config), inputs, qkv);
  leave_for_replay(context, module, b_replay(config), inputs, b);
  leave_for_replay(context, module, a_replay(config), inputs, a);
  const Value out = read_states(context, module, config, inputs, {qkv, b, a});
  const Value normal = norm_heads(context, {module + ".norm", config.eps}, out);
  ops::ActMulOptions gated;
  gated.kind = TERN_ACT_SILU;
  gated.out = build.activations;
  gated.needs = build.needs;
  return linear(context, module + ".out_proj", ops::act_mul(graph, z, ops::as_matrix(graph, normal), gated));
}

CacheSpec delta_net_cache(const std::string& module, const GatedDeltaNetConfig& config) {
  CacheSpec spec;
  spec.kind = CacheKind::state;
  spec.module = module;
  spec.states = {conv_state(config), delta_state(config)};
  spec.replays = {qkv_replay(config), b_replay(config), a_replay(config)};
  spec.replay = [module, config](Context& context, const TokenInputs& inputs) {
    const auto left = [&](const ReplaySpec& rows) { return left_for_replay(context, module, rows, inputs); };
    (void)read_states(context, module, config, inputs,
                      {left(qkv_replay(config)), left(b_replay(config)), left(a_replay(config))});
  };
  return spec;
}

}  // namespace tern::nn
