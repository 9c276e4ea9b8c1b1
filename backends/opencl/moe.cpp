// Mixtures of experts but for their products (grouped_matmul.cpp): the choice, and the way to the experts and back.
#include <algorithm>

#include "backends/opencl/kernels.h"
#include "backends/opencl/product.h"

namespace tern::opencl {
namespace {

std::vector<Function> functions_of(const PlanDesc& desc, std::initializer_list<const char*> names) {
  const Defines defines = Defines().set("GROUP", desc.device.cpu ? 1 : 64).set("V", desc.device.cpu ? 16 : 4);
  std::vector<Function> list;
  for (const char* name : names) list.push_back({"moe", name, defines.text()});
  return list;
}
std::int64_t vector_of(const Facts& facts) { return facts.cpu ? 16 : 4; }

// ---------------------------------------------------------------- the choice

// As in cl/moe.cl.
struct Route {
  std::int64_t logits_row, logits_col, bias_col;
  std::int64_t weights_row, weights_col, chosen_row, chosen_col;
  std::int64_t dlogits_row, dlogits_col;
  std::int64_t step, row_step;
  std::int32_t rows, experts, top_k;
  std::int32_t logits_type, dlogits_type;
  std::int32_t sigmoid, normalise, has_bias;
  std::int32_t groups, top_groups, group_top;
  float scale;
};

// What both directions have in common. Neighbouring work-items of a GPU read neighbouring numbers.
Route make_route(const Facts& facts, const TensorView& logits, const TensorView& weights, const TensorView& chosen) {
  Route route{};
  route.logits_row = logits.stride(0);
  route.logits_col = logits.stride(1);
  route.logits_type = logits.dtype();
  route.weights_row = weights.stride(0);
  route.weights_col = weights.stride(1);
  route.chosen_row = chosen.stride(0);
  route.chosen_col = chosen.stride(1);
  route.rows = static_cast<std::int32_t>(logits.dim(0));
  route.experts = static_cast<std::int32_t>(logits.dim(1));
  route.top_k = static_cast<std::int32_t>(chosen.dim(1));
  route.step = facts.cpu ? 1 : logits.dim(0);
  route.row_step = facts.cpu ? logits.dim(1) : 1;
  return route;
}

bool route_supports(const PlanDesc& desc, std::string& reason) {
  const auto &logits = desc.arg(TERN_MOE_ROUTE_LOGITS), &weights = desc.arg(TERN_MOE_ROUTE_WEIGHTS);
  const auto& attrs = desc.attrs<tern_moe_route_attrs>();
  Check check(desc, reason);
  check.floats({TERN_MOE_ROUTE_LOGITS})
      .rank(TERN_MOE_ROUTE_LOGITS, 2)
      .rank(TERN_MOE_ROUTE_WEIGHTS, 2)
      .rank(TERN_MOE_ROUTE_BIAS, 1)
      .dim(TERN_MOE_ROUTE_LOGITS, 0, weights.shape[0])
      .same_shape({TERN_MOE_ROUTE_WEIGHTS, TERN_MOE_ROUTE_EXPERTS});
  if (!check.ok()) return false;
  return check.dim(TERN_MOE_ROUTE_BIAS, 0, logits.shape[1])
      .that(weights.shape[1] <= logits.shape[1], "more experts are chosen than there are")
      .that(attrs.groups >= 1 && logits.shape[1] % std::max(attrs.groups, 1) == 0, "groups do not divide the experts")
      .ok();
}

// Of each row: the scores, what decides, and how good the groups are.
std::uint64_t route_workspace(const PlanDesc& desc) {
  const auto& logits = desc.arg(TERN_MOE_ROUTE_LOGITS);
  return static_cast<std::uint64_t>(logits.shape[0] * logits.shape[1]) * 3 * 4;
}

std::vector<Function> route_functions(const PlanDesc& desc) { return functions_of(desc, {"moe_route"}); }

void run_route(const Launch& launch) {
  const auto& attrs = launch.attr<tern_moe_route_attrs>();
  const TensorView &logits = launch[TERN_MOE_ROUTE_LOGITS], &bias = launch[TERN_MOE_ROUTE_BIAS];
  const TensorView &weights = launch[TERN_MOE_ROUTE_WEIGHTS], &chosen = launch[TERN_MOE_ROUTE_EXPERTS];
  Route route = make_route(launch.device(), logits, weights, chosen);
  route.has_bias = bias.present() ? 1 : 0;
  route.bias_col = bias.present() ? bias.stride(0) : 0;
  route.sigmoid = attrs.sigmoid;
  route.normalise = attrs.normalise;
  route.groups = attrs.groups;
  route.top_groups = attrs.top_groups;
  route.group_top = attrs.group_top;
  route.scale = attrs.scale;
  launch.call(0)
      .arg(logits)
      .arg(bias)
      .arg(weights)
      .arg(chosen)
      .arg(launch.workspace())
      .arg(route)
      .run(logits.dim(0), plain_group(launch.device()));
}

bool route_backward_supports(const PlanDesc& desc, std::string& reason) {
  const auto& experts = desc.arg(TERN_MOE_ROUTE_BACKWARD_EXPERTS);
  return Check(desc, reason)
      .floats({TERN_MOE_ROUTE_BACKWARD_LOGITS, TERN_MOE_ROUTE_BACKWARD_DLOGITS})
      .rank(TERN_MOE_ROUTE_BACKWARD_LOGITS, 2)
      .rank(TERN_MOE_ROUTE_BACKWARD_EXPERTS, 2)
      .dim(TERN_MOE_ROUTE_BACKWARD_LOGITS, 0, experts.shape[0])
      .same_shape({TERN_MOE_ROUTE_BACKWARD_LOGITS, TERN_MOE_ROUTE_BACKWARD_DLOGITS})
      .same_shape({TERN_MOE_ROUTE_BACKWARD_DWEIGHTS, TERN_MOE_ROUTE_BACKWARD_EXPERTS})
      .ok();
}

std::uint64_t route_backward_workspace(const PlanDesc& desc) {
  const auto& logits = desc.arg(TERN_MOE_ROUTE_BACKWARD_LOGITS);
  return static_cast<std::uint64_t>(logits.shape[0] * logits.shape[1]) * 2 * 4;
}

std::vector<Function> route_backward_functions(const PlanDesc& desc) {
  return functions_of(desc, {"moe_route_backward"});
}

void run_route_backward(const Launch& launch) {
  const auto& attrs = launch.attr<tern_moe_route_backward_attrs>();
  const TensorView &dweights = launch[TERN_MOE_ROUTE_BACKWARD_DWEIGHTS],
                   &logits = launch[TERN_MOE_ROUTE_BACKWARD_LOGITS];
  const TensorView &chosen = launch[TERN_MOE_ROUTE_BACKWARD_EXPERTS],
                   &dlogits = launch[TERN_MOE_ROUTE_BACKWARD_DLOGITS];
  Route route = make_route(launch.device(), logits, dweights, chosen);
  route.dlogits_row = dlogits.stride(0);
  route.dlogits_col = dlogits.stride(1);
  route.dlogits_type = dlogits.dtype();
  route.sigmoid = attrs.sigmoid;
  route.normalise = attrs.normalise;
  route.scale = attrs.scale;
  launch.call(0)
      .arg(dweights)
      .arg(logits)
      .arg(chosen)
      .arg(dlogits)
      .arg(launch.workspace())
      .arg(route)
      .run(logits.dim(0), plain_group(launch.device()));
}

// ---------------------------------------------------------------- in order of experts

// As in cl/moe.cl.
struct Permute {
  std::int64_t x_row, x_col, y_row, y_sub, y_col;
  std::int32_t rows, top_k, experts, width;
  std::int32_t length, parts;
};

constexpr std::int64_t kParts = 256;  // that count at the same time
constexpr std::int64_t kLeastLength = 64;

bool permute_supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_MOE_PERMUTE_X), &y = desc.arg(TERN_MOE_PERMUTE_Y);
  Check check(desc, reason);
  check.floats({TERN_MOE_PERMUTE_X, TERN_MOE_PERMUTE_Y})
      .dtype(TERN_MOE_PERMUTE_Y, x.dtype)
      .rank(TERN_MOE_PERMUTE_X, 2)
      .rank(TERN_MOE_PERMUTE_Y, 3)
      .rank(TERN_MOE_PERMUTE_EXPERTS, 2)
      .rank(TERN_MOE_PERMUTE_OFFSETS, 1);
  if (!check.ok()) return false;
  return check.dim(TERN_MOE_PERMUTE_X, 0, y.shape[0])
      .dim(TERN_MOE_PERMUTE_X, 1, y.shape[2])
      .dim(TERN_MOE_PERMUTE_EXPERTS, 0, y.shape[0])
      .dim(TERN_MOE_PERMUTE_EXPERTS, 1, y.shape[1])
      .same_shape({TERN_MOE_PERMUTE_EXPERTS, TERN_MOE_PERMUTE_PLACES})
      .that(desc.arg(TERN_MOE_PERMUTE_OFFSETS).shape[0] >= 2, "offsets name no expert")
      .that(y.shape[0] * y.shape[1] < INT32_MAX, "there are too many rows")
      .ok();
}

std::uint64_t permute_workspace(const PlanDesc& desc) {
  return static_cast<std::uint64_t>(desc.arg(TERN_MOE_PERMUTE_OFFSETS).shape[0] * (kParts + 1)) * 4;
}

std::vector<Function> permute_functions(const PlanDesc& desc) {
  return functions_of(desc, {"moe_count", "moe_before", "moe_offsets", "moe_places", "moe_move"});
}

void run_permute(const Launch& launch) {
  const TensorView &x = launch[TERN_MOE_PERMUTE_X], &chosen = launch[TERN_MOE_PERMUTE_EXPERTS];
  const TensorView &y = launch[TERN_MOE_PERMUTE_Y], &places = launch[TERN_MOE_PERMUTE_PLACES];
  const TensorView& offsets = launch[TERN_MOE_PERMUTE_OFFSETS];
  const std::int64_t experts = offsets.dim(0) - 1, choices = chosen.dim(0) * chosen.dim(1);
  const std::int64_t group = plain_group(launch.device());
  Permute p{x.stride(0), x.stride(1), y.stride(0), y.stride(1), y.stride(2)};
  p.rows = static_cast<std::int32_t>(chosen.dim(0));
  p.top_k = static_cast<std::int32_t>(chosen.dim(1));
  p.experts = static_cast<std::int32_t>(experts);
  p.width = static_cast<std::int32_t>(x.dim(1));
  p.length = static_cast<std::int32_t>(std::max(kLeastLength, parts_of(choices, kParts)));
  p.parts = static_cast<std::int32_t>(parts_of(choices, p.length));
  const Place counts = launch.workspace();
  const Place totals = launch.workspace(static_cast<std::uint64_t>(kParts * experts) * 4);
  launch.call(0).arg(chosen).arg(counts).arg(p).run(p.parts, group);
  launch.call(1).arg(counts).arg(totals).arg(p).run(experts, group);
  launch.call(2).arg(totals).arg(offsets).arg(p).run(1, 1);
  launch.call(3).arg(chosen).arg(counts).arg(offsets).arg(places).arg(p).run(p.parts, group);
  const std::int64_t across = launch.device().cpu ? 1 : std::min<std::int64_t>(round_up(p.width, 64), 256);
  launch.call(4)
      .arg(x)
      .arg(places)
      .arg(y)
      .arg(p)
      .arg(std::int32_t{x.dtype() == TERN_F32 ? 4 : 2})
      .run({choices, across, 1}, {1, across, 1});
}

// ---------------------------------------------------------------- back together

// As in cl/moe.cl.
struct Combine {
  std::int64_t many_row, many_sub, many_col, one_row, one_col;
  std::int64_t x_row, x_sub, x_col;
  std::int64_t weights_row, weights_col, dweights_row, dweights_col;
  std::int32_t rows, top_k, width;
  std::int32_t many_type, one_type, x_type;
  std::int32_t has_weights, adds;
};

Combine make_combine(const TensorView& many, const TensorView& one, const TensorView& weights) {
  Combine combine{many.stride(0), many.stride(1), many.stride(2), one.stride(0), one.stride(1)};
  combine.rows = static_cast<std::int32_t>(many.dim(0));
  combine.top_k = static_cast<std::int32_t>(many.dim(1));
  combine.width = static_cast<std::int32_t>(many.dim(2));
  combine.many_type = many.dtype();
  combine.one_type = one.dtype();
  combine.has_weights = weights.present() ? 1 : 0;
  combine.weights_row = weights.present() ? weights.stride(0) : 0;
  combine.weights_col = weights.present() ? weights.stride(1) : 0;
  return combine;
}

bool combine_supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_MOE_COMBINE_X);
  Check check(desc, reason);
  check.floats({TERN_MOE_COMBINE_X, TERN_MOE_COMBINE_Y})
      .rank(TERN_MOE_COMBINE_X, 3)
      .rank(TERN_MOE_COMBINE_Y, 2)
      .rank(TERN_MOE_COMBINE_PLACES, 2);
  if (!check.ok()) return false;
  return check.dim(TERN_MOE_COMBINE_Y, 0, x.shape[0])
      .dim(TERN_MOE_COMBINE_Y, 1, x.shape[2])
      .dim(TERN_MOE_COMBINE_PLACES, 0, x.shape[0])
      .dim(TERN_MOE_COMBINE_PLACES, 1, x.shape[1])
      .same_shape({TERN_MOE_COMBINE_PLACES, TERN_MOE_COMBINE_WEIGHTS})
      .that(x.shape[0] * x.shape[1] < INT32_MAX, "there are too many rows")
      .ok();
}

std::vector<Function> combine_functions(const PlanDesc& desc) { return functions_of(desc, {"moe_combine"}); }

void run_combine(const Launch& launch) {
  const TensorView &x = launch[TERN_MOE_COMBINE_X], &y = launch[TERN_MOE_COMBINE_Y];
  const TensorView& weights = launch[TERN_MOE_COMBINE_WEIGHTS];
  Combine combine = make_combine(x, y, weights);
  combine.adds = launch.accumulates(TERN_MOE_COMBINE_Y) ? 1 : 0;
  launch.call(0)
      .arg(x)
      .arg(launch[TERN_MOE_COMBINE_PLACES])
      .arg(weights)
      .arg(y)
      .arg(combine)
      .run({parts_of(y.dim(1), vector_of(launch.device())), y.dim(0), 1}, {plain_group(launch.device()), 1, 1});
}

bool combine_backward_supports(const PlanDesc& desc, std::string& reason) {
  constexpr int kDx = TERN_MOE_COMBINE_BACKWARD_DX, kDy = TERN_MOE_COMBINE_BACKWARD_DY;
  constexpr int kX = TERN_MOE_COMBINE_BACKWARD_X, kPlaces = TERN_MOE_COMBINE_BACKWARD_PLACES;
  const auto& dx = desc.arg(kDx);
  Check check(desc, reason);
  check.floats({kDy, kX, kDx})
      .rank(kDx, 3)
      .rank(kDy, 2)
      .rank(kPlaces, 2)
      .that(desc.present(kX) == desc.present(TERN_MOE_COMBINE_BACKWARD_DWEIGHTS), "x and dweights come together");
  if (!check.ok()) return false;
  return check.dim(kDy, 0, dx.shape[0])
      .dim(kDy, 1, dx.shape[2])
      .dim(kPlaces, 0, dx.shape[0])
      .dim(kPlaces, 1, dx.shape[1])
      .same_shape({kDx, kX})
      .same_shape({kPlaces, TERN_MOE_COMBINE_BACKWARD_WEIGHTS})
      .same_shape({kPlaces, TERN_MOE_COMBINE_BACKWARD_DWEIGHTS})
      .that(dx.shape[0] * dx.shape[1] < INT32_MAX, "there are too many rows")
      .ok();
}

std::vector<Function> combine_backward_functions(const PlanDesc& desc) {
  return functions_of(desc, {"moe_spread", "moe_weight_gradient"});
}

void run_combine_backward(const Launch& launch) {
  const TensorView &dy = launch[TERN_MOE_COMBINE_BACKWARD_DY], &x = launch[TERN_MOE_COMBINE_BACKWARD_X];
  const TensorView &dx = launch[TERN_MOE_COMBINE_BACKWARD_DX], &places = launch[TERN_MOE_COMBINE_BACKWARD_PLACES];
  const TensorView& weights = launch[TERN_MOE_COMBINE_BACKWARD_WEIGHTS];
  const TensorView& dweights = launch[TERN_MOE_COMBINE_BACKWARD_DWEIGHTS];
  const std::int64_t choices = dx.dim(0) * dx.dim(1);
  Combine combine = make_combine(dx, dy, weights);
  launch.call(0).arg(dy).arg(places).arg(weights).arg(dx).arg(combine).run(
      {parts_of(dx.dim(2), vector_of(launch.device())), choices, 1}, {plain_group(launch.device()), 1, 1});
  if (!dweights.present()) return;
  combine.x_row = x.stride(0);
  combine.x_sub = x.stride(1);
  combine.x_col = x.stride(2);
  combine.x_type = x.dtype();
  combine.dweights_row = dweights.stride(0);
  combine.dweights_col = dweights.stride(1);
  const std::int64_t group = launch.device().cpu ? 1 : 64;
  launch.call(1).arg(dy).arg(x).arg(places).arg(dweights).arg(combine).run(choices * group, group);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_MOE_ROUTE, "rows", route_supports, route_workspace, route_functions, run_route},
    {TERN_OP_MOE_ROUTE_BACKWARD, "rows", route_backward_supports, route_backward_workspace, route_backward_functions,
     run_route_backward},
    {TERN_OP_MOE_PERMUTE, "parts", permute_supports, permute_workspace, permute_functions, run_permute},
    {TERN_OP_MOE_COMBINE, "vectors", combine_supports, nullptr, combine_functions, run_combine},
    {TERN_OP_MOE_COMBINE_BACKWARD, "vectors", combine_backward_supports, nullptr, combine_backward_functions,
     run_combine_backward}};

}  // namespace

KernelList moe_kernels() { return kKernels; }

}  // namespace tern::opencl
