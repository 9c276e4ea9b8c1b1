#include "nn/moe.h"

#include <stdexcept>

#include "nn/linear.h"
#include "nn/mlp.h"
#include "ops/act_mul.h"
#include "ops/build.h"
#include "ops/grouped_matmul.h"
#include "ops/moe_combine.h"
#include "ops/moe_permute.h"
#include "ops/moe_route.h"

namespace tern::nn {
namespace {

ops::MoeRoute route(Context& context, const std::string& module, const MoeConfig& config, Value x) {
  const std::string router = module + "." + config.router;
  const Value added = context.has(router + ".bias") ? context.weight(router + ".bias") : Value{};
  const Value logits = product(context, x, context.weight(router + ".weight"), added, TERN_F32, TERN_COMPUTE_F32);
  ops::MoeRouteOptions options;
  options.top_k = config.top_k;
  options.sigmoid = config.sigmoid;
  options.normalise = config.normalise;
  options.scale = config.scale;
  options.groups = config.groups;
  options.top_groups = config.top_groups;
  options.group_top = config.group_top;
  const std::string bias = router + ".e_score_correction_bias";
  if (context.has(bias)) options.bias = context.weight(bias);
  options.needs = context.options().needs;
  return ops::moe_route(context.graph(), logits, options);
}

// [rows, top_k, in] -> [rows, top_k, out] by each expert's own matrix.
Value expert_product(Context& context, const std::string& module, Value x, Value offsets) {
  ops::GroupedMatmulOptions options;
  options.compute = context.options().compute;
  options.out = context.options().activations;
  if (context.has(module + ".bias")) options.bias = context.weight(module + ".bias");
  options.needs = context.options().needs;
  return ops::grouped_matmul(context.graph(), x, context.weight(module + ".weight"), offsets, options);
}

Value shared_expert(Context& context, const std::string& module, const MoeConfig& config, Value x) {
  const std::string shared = module + "." + config.shared;
  const Value y = gated_mlp(context, shared, x, config.act);
  if (!config.shared_gated) return y;
  const Value gate = linear(context, shared + "_gate", x);  // [rows, 1]
  TensorDesc wide = context.graph().desc(y);
  wide.dtype = context.graph().desc(gate).dtype;
  wide.strides[0] = 1;
  wide.strides[1] = 0;
  ops::ActMulOptions options;
  options.kind = TERN_ACT_SIGMOID;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return ops::act_mul(context.graph(), context.graph().view(gate, wide, 0), y, options);
}

}  // namespace

Value moe(Context& context, const std::string& module, const MoeConfig& config, Value x, Value added) {
  graph::Graph& graph = context.graph();
  const BuildOptions& build = context.options();
  const auto [weights, experts] = route(context, module, config, x);
  const auto [rows, places, offsets] = ops::moe_permute(graph, x, experts, config.experts, build.needs);
  const std::string expert = module + ".experts";
  const Value gate = expert_product(context, expert + ".gate_proj", rows, offsets);
  const Value up = expert_product(context, expert + ".up_proj", rows, offsets);
  ops::ActMulOptions act;
  act.kind = config.act;
  act.limit = config.limit;
  act.up_offset = config.up_offset;
  act.out = build.activations;
  act.needs = build.needs;
  const Value inner = ops::act_mul(graph, ops::as_matrix(graph, gate), ops::as_matrix(graph, up), act);
  const TensorDesc& wide = graph.desc(gate);
  const TensorDesc grouped = ops::rows_like(make_desc(build.activations, shape_of(wide)), wide);
  const Value down = expert_product(context, expert + ".down_proj", graph.view(inner, grouped, 0), offsets);
  ops::MoeCombineOptions combine;
  combine.weights = weights;
  combine.out = build.activations;
  combine.needs = build.needs;
  if (added.present() && !config.shared.empty())
    throw std::logic_error("moe: beside an expert that all share, nothing is added");
  combine.into = config.shared.empty() ? added : shared_expert(context, module, config, x);
  return ops::moe_combine(graph, down, places, combine);
}

}  // namespace tern::nn
