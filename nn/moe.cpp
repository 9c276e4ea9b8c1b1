#include "nn/moe.h"

#include <stdexcept>

#include "base/strings.h"
#include "nn/linear.h"
#include "nn/mlp.h"
#include "ops/act_mul.h"
#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/fill.h"
#include "ops/grouped_matmul.h"
#include "ops/moe_combine.h"
#include "ops/moe_permute.h"
#include "ops/moe_route.h"
#include "ops/mul.h"

namespace tern::nn {
namespace {

Value router_logits(Context& context, const std::string& module, const MoeConfig& config, Value x) {
  const std::string router = module + "." + config.router;
  const Value added = context.has(router + ".bias") ? context.weight(router + ".bias") : Value{};
  return product(context, x, context.weight(router + ".weight"), added, TERN_F32, TERN_COMPUTE_F32);
}

std::string router_name(std::size_t index, const char* part) { return cat("router ", index, " ", part); }

void keep_router(Context& context, const Router& router) {
  const std::size_t index = routers(context).size();
  context.keep(router_name(index, "logits"), router.logits);
  context.keep(router_name(index, "offsets"), router.offsets);
}

ops::MoeRoute route(Context& context, const std::string& module, const MoeConfig& config, Value logits) {
  const std::string router = module + "." + config.router;
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
  graph::Graph& graph = context.graph();
  const Value y = ops::grouped_matmul(graph, x, context.weight(module + ".weight"), offsets, options);
  const auto adapter = context.options().adapters.find(module);
  if (adapter == context.options().adapters.end()) return y;
  options.bias = {};
  options.compute = TERN_F32;
  const LoraLayer& lora = adapter->second;
  if (!context.has_kept(lora.lora_a)) {  // that of gates is the ups', too
    options.out = TERN_F32;
    const Value low = ops::grouped_matmul(graph, x, context.weight(lora.lora_a), offsets, options);
    context.keep(lora.lora_a, ops::axpby(graph, low, {}, {.a = lora.scaling, .out = TERN_F32, .needs = options.needs}));
  }
  options.out = graph.desc(y).dtype;
  options.into = y;
  return ops::grouped_matmul(graph, context.kept(lora.lora_a), context.weight(lora.lora_b), offsets, options);
}

// x [rows, top_k, width], in order of experts, times the factor of each row's expert, of "<name>" [experts]. A product
// with matrices of one element says which that is.
Value scaled_by_expert(Context& context, const std::string& name, Value x, Value offsets) {
  graph::Graph& graph = context.graph();
  const TensorDesc wide = graph.desc(x);
  const Value factors = context.weight(name);
  const TensorDesc held = graph.desc(factors);
  const TensorDesc one = ops::rows_like(make_desc(TERN_F32, {wide.shape[0], wide.shape[1], 1}), wide);
  ops::GroupedMatmulOptions product;
  product.needs = context.options().needs;
  const Value ones = ops::fill(graph, one, 1.0F, {.needs = context.options().needs});
  const Value each = ops::grouped_matmul(
      graph, ones, graph.view(factors, make_desc(held.dtype, {held.shape[0], 1, 1}), 0), offsets, product);
  TensorDesc spread = wide;
  spread.dtype = TERN_F32;
  spread.strides[0] = wide.shape[1];
  spread.strides[1] = 1;
  spread.strides[2] = 0;
  ops::MulOptions options;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return ops::mul(graph, x, graph.view(each, spread, 0), options);
}

// Of rows that are weighted first, the weights alone are permuted: they say the places, and are few numbers.
ops::MoePermute permuted(Context& context, const MoeConfig& config, Value x, Value weights, Value experts) {
  const BuildOptions& build = context.options();
  ops::MoePermute made =
      ops::moe_permute(context.graph(), config.weights_inputs ? weights : x, experts, config.experts, build.needs);
  if (!config.weights_inputs) return made;
  made.y = ops::moe_scatter(context.graph(), x, made.places,
                            {.weights = weights, .out = build.activations, .needs = build.needs});
  return made;
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

Value moe(Context& context, const std::string& module, const MoeConfig& config, Value x, const MoeExtras& extras) {
  graph::Graph& graph = context.graph();
  const BuildOptions& build = context.options();
  const Value logits = router_logits(context, module, config, extras.routed.present() ? extras.routed : x);
  const auto [weights, experts] = route(context, module, config, logits);
  const auto [rows, places, offsets] = permuted(context, config, x, weights, experts);
  if (config.balanced) keep_router(context, {logits, offsets});
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
  Value fed = graph.view(inner, grouped, 0);
  if (!config.expert_scale.empty())
    fed = scaled_by_expert(context, cat(module, ".", config.expert_scale), fed, offsets);
  const Value down = expert_product(context, expert + ".down_proj", fed, offsets);
  ops::MoeCombineOptions combine;
  if (!config.weights_inputs) combine.weights = weights;
  combine.out = build.activations;
  combine.needs = build.needs;
  if (extras.added.present() && !config.shared.empty())
    throw std::logic_error("moe: beside an expert that all share, nothing is added");
  combine.into = config.shared.empty() ? extras.added : shared_expert(context, module, config, x);
  return ops::moe_combine(graph, down, places, combine);
}

std::vector<Router> routers(const Context& context) {
  std::vector<Router> out;
  while (context.has_kept(router_name(out.size(), "logits"))) {
    const std::size_t index = out.size();
    out.push_back({context.kept(router_name(index, "logits")), context.kept(router_name(index, "offsets"))});
  }
  return out;
}

}  // namespace tern::nn
