// Mixtures of experts but for their products (grouped_matmul.cpp): the choice, and the way to the experts and back.
#include <algorithm>

#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

// ---------------------------------------------------------------- the choice

// As in cu/moe.cu.
struct Route {
  std::int64_t logits_row, logits_col, bias_col;
  std::int64_t weights_row, weights_col;
  std::int64_t dlogits_row, dlogits_col;
  std::int32_t rows, experts, top_k;
  std::int32_t sigmoid, normalise;
  std::int32_t groups, top_groups, group_top;
  float scale;
};

// What both directions have in common.
Route make_route(const TensorView& logits, const TensorView& weights) {
  Route route{};
  route.logits_row = logits.stride(0);
  route.logits_col = logits.stride(1);
  route.weights_row = weights.stride(0);
  route.weights_col = weights.stride(1);
  route.rows = static_cast<std::int32_t>(logits.dim(0));
  route.experts = static_cast<std::int32_t>(logits.dim(1));
  route.top_k = static_cast<std::int32_t>(weights.dim(1));
  return route;
}

// A warp has a row, whose numbers lie in shared memory: `bytes` of them.
void run_rows(Call call, std::int64_t rows, std::int64_t bytes) {
  constexpr std::int64_t kShared = 48 << 10, kMostWarps = 4;
  const std::int64_t warps = std::clamp<std::int64_t>(kShared / bytes, 1, kMostWarps);
  call.shared(static_cast<std::size_t>(warps * bytes)).run(rows * 32, warps * 32);
}
std::int64_t route_bytes(std::int64_t experts, std::int64_t groups) { return (2 * experts + groups) * 4; }
bool fits_shared(const PlanDesc& desc, std::int64_t bytes) {
  return static_cast<std::uint64_t>(bytes) <= desc.device.shared_memory;
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
      .that(fits_shared(desc, route_bytes(logits.shape[1], attrs.groups)), "the experts don't fit shared memory")
      .ok();
}

Functions route_functions(const PlanDesc& /*desc*/) { return {"moe_route"}; }

void run_route(const Launch& launch) {
  const auto& attrs = launch.attr<tern_moe_route_attrs>();
  const TensorView &logits = launch[TERN_MOE_ROUTE_LOGITS], &bias = launch[TERN_MOE_ROUTE_BIAS];
  const TensorView &weights = launch[TERN_MOE_ROUTE_WEIGHTS], &chosen = launch[TERN_MOE_ROUTE_EXPERTS];
  Route route = make_route(logits, weights);
  route.bias_col = stride_of(bias);
  route.sigmoid = attrs.sigmoid;
  route.normalise = attrs.normalise;
  route.groups = attrs.groups;
  route.top_groups = attrs.top_groups;
  route.group_top = attrs.group_top;
  route.scale = attrs.scale;
  Call call = launch.call(0);
  call.arg(logits).arg(bias).arg(weights).arg(chosen).arg(route).overlapped();
  run_rows(call, logits.dim(0), route_bytes(route.experts, route.groups));
}

bool route_backward_supports(const PlanDesc& desc, std::string& reason) {
  const auto& experts = desc.arg(TERN_MOE_ROUTE_BACKWARD_EXPERTS);
  Check check(desc, reason);
  check.floats({TERN_MOE_ROUTE_BACKWARD_LOGITS, TERN_MOE_ROUTE_BACKWARD_DLOGITS})
      .rank(TERN_MOE_ROUTE_BACKWARD_LOGITS, 2)
      .rank(TERN_MOE_ROUTE_BACKWARD_EXPERTS, 2)
      .dim(TERN_MOE_ROUTE_BACKWARD_LOGITS, 0, experts.shape[0])
      .same_shape({TERN_MOE_ROUTE_BACKWARD_LOGITS, TERN_MOE_ROUTE_BACKWARD_DLOGITS})
      .same_shape({TERN_MOE_ROUTE_BACKWARD_DWEIGHTS, TERN_MOE_ROUTE_BACKWARD_EXPERTS});
  if (!check.ok()) return false;
  return check
      .that(fits_shared(desc, desc.arg(TERN_MOE_ROUTE_BACKWARD_LOGITS).shape[1] * 4),
            "the experts don't fit shared memory")
      .ok();
}

Functions route_backward_functions(const PlanDesc& /*desc*/) { return {"moe_route_backward"}; }

void run_route_backward(const Launch& launch) {
  const auto& attrs = launch.attr<tern_moe_route_backward_attrs>();
  const TensorView &dweights = launch[TERN_MOE_ROUTE_BACKWARD_DWEIGHTS],
                   &logits = launch[TERN_MOE_ROUTE_BACKWARD_LOGITS];
  const TensorView &chosen = launch[TERN_MOE_ROUTE_BACKWARD_EXPERTS],
                   &dlogits = launch[TERN_MOE_ROUTE_BACKWARD_DLOGITS];
  Route route = make_route(logits, dweights);
  route.dlogits_row = dlogits.stride(0);
  route.dlogits_col = dlogits.stride(1);
  route.sigmoid = attrs.sigmoid;
  route.normalise = attrs.normalise;
  route.scale = attrs.scale;
  Call call = launch.call(0);
  call.arg(dweights).arg(logits).arg(chosen).arg(dlogits).arg(route);
  run_rows(call, logits.dim(0), std::max(route.experts, 1) * std::int64_t{4});
}

// ---------------------------------------------------------------- in order of experts

// As in cu/moe.cu.
struct Permute {
  std::int64_t x_row, x_col, y_row, y_sub, y_col;
  std::int32_t rows, top_k, experts, width;
  std::int32_t length, parts;
};

constexpr std::int64_t kParts = 512;  // that count at the same time
constexpr std::int64_t kLeastLength = 64;
constexpr std::int64_t kOffsetThreads = 1024;

enum : std::size_t { kCount, kOffsets, kPlaces, kMove };

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
  const std::int64_t offsets = desc.arg(TERN_MOE_PERMUTE_OFFSETS).shape[0];
  return check.dim(TERN_MOE_PERMUTE_X, 0, y.shape[0])
      .dim(TERN_MOE_PERMUTE_X, 1, y.shape[2])
      .dim(TERN_MOE_PERMUTE_EXPERTS, 0, y.shape[0])
      .dim(TERN_MOE_PERMUTE_EXPERTS, 1, y.shape[1])
      .same_shape({TERN_MOE_PERMUTE_EXPERTS, TERN_MOE_PERMUTE_PLACES})
      .that(offsets >= 2, "offsets name no expert")
      .that(fits_shared(desc, offsets * 4), "the experts don't fit shared memory")
      .that(y.shape[0] * y.shape[1] < INT32_MAX, "there are too many rows")
      .ok();
}

// Counts [experts, kParts] and their sums [experts].
std::uint64_t permute_workspace(const PlanDesc& desc) {
  return static_cast<std::uint64_t>(desc.arg(TERN_MOE_PERMUTE_OFFSETS).shape[0] * (kParts + 1)) * 4;
}

// The bytes that rows are copied by. Strides and widths are multiples of 16 where that is 16; addresses are known at
// launch alone.
std::int64_t moved_bytes(const TensorView& x, const TensorView& y) {
  const std::int64_t bytes = x.dtype() == TERN_F32 ? 4 : 2, of_16 = 16 / bytes;
  bool whole = (x.planes[0] | y.planes[0]) % 16 == 0 && x.dim(1) % of_16 == 0;
  whole = whole && x.stride(1) == 1 && y.stride(2) == 1;
  for (const std::int64_t stride : {x.stride(0), y.stride(0), y.stride(1)}) whole = whole && stride % of_16 == 0;
  return whole ? 16 : bytes;
}

Functions permute_functions(const PlanDesc& desc) {
  const char* single = desc.arg(TERN_MOE_PERMUTE_X).dtype == TERN_F32 ? "moe_move_4" : "moe_move_2";
  return {"moe_count", "moe_offsets", "moe_places", single, "moe_move_16"};
}

void run_permute(const Launch& launch) {
  const TensorView &x = launch[TERN_MOE_PERMUTE_X], &chosen = launch[TERN_MOE_PERMUTE_EXPERTS];
  const TensorView &y = launch[TERN_MOE_PERMUTE_Y], &places = launch[TERN_MOE_PERMUTE_PLACES];
  const TensorView& offsets = launch[TERN_MOE_PERMUTE_OFFSETS];
  const std::int64_t experts = offsets.dim(0) - 1, choices = chosen.dim(0) * chosen.dim(1);
  Permute p{x.stride(0), x.stride(1), y.stride(0), y.stride(1), y.stride(2)};
  p.rows = static_cast<std::int32_t>(chosen.dim(0));
  p.top_k = static_cast<std::int32_t>(chosen.dim(1));
  p.experts = static_cast<std::int32_t>(experts);
  p.width = static_cast<std::int32_t>(x.dim(1));
  p.length = static_cast<std::int32_t>(std::max(kLeastLength, round_up(parts_of(choices, kParts), 32)));
  p.parts = static_cast<std::int32_t>(parts_of(choices, p.length));
  const Place counts = launch.workspace();
  const Place totals = launch.workspace(static_cast<std::uint64_t>(kParts * experts) * 4);
  const auto shared = static_cast<std::size_t>(experts * 4);
  launch.call(kCount).arg(chosen).arg(counts).arg(p).shared(shared).overlapped().run({p.parts, 1, 1}, {32, 1, 1});
  launch.call(kOffsets).arg(counts).arg(totals).arg(offsets).arg(p).overlapped().run({1, 1, 1}, {kOffsetThreads, 1, 1});
  launch.call(kPlaces).arg(chosen).arg(counts).arg(offsets).arg(places).arg(p).shared(shared).overlapped().run(
      {p.parts, 1, 1}, {32, 1, 1});
  const bool by_16 = moved_bytes(x, y) == 16;
  if (by_16) {
    const std::int64_t of_16 = x.dtype() == TERN_F32 ? 4 : 8;
    p.width = static_cast<std::int32_t>(x.dim(1) / of_16);
    for (std::int64_t* stride : {&p.x_row, &p.y_row, &p.y_sub}) *stride /= of_16;
  }
  launch.call(kMove + (by_16 ? 1 : 0))
      .arg(x)
      .arg(places)
      .arg(y)
      .arg(p)
      .overlapped()
      .run({p.rows, parts_of(p.width, kPlainThreads), 1}, {kPlainThreads, 1, 1});
}

// ---------------------------------------------------------------- back together

// As in cu/moe.cu.
struct Combine {
  std::int64_t many_row, many_sub, many_col, one_row, one_col;
  std::int64_t x_row, x_sub, x_col;
  std::int64_t weights_row, weights_col, dweights_row, dweights_col;
  std::int32_t rows, top_k, width;
};
constexpr std::int64_t kVector = 8;

Combine make_combine(const TensorView& many, const TensorView& one, const TensorView& weights) {
  Combine combine{many.stride(0), many.stride(1), many.stride(2), one.stride(0), one.stride(1)};
  combine.rows = static_cast<std::int32_t>(many.dim(0));
  combine.top_k = static_cast<std::int32_t>(many.dim(1));
  combine.width = static_cast<std::int32_t>(many.dim(2));
  combine.weights_row = weights.present() ? weights.stride(0) : 0;
  combine.weights_col = weights.present() ? weights.stride(1) : 0;
  return combine;
}
Dim3 blocks_of(const Combine& combine) { return {combine.rows, parts_of(combine.width, kVector * kPlainThreads), 1}; }

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

Functions combine_functions(const PlanDesc& /*desc*/) { return {"moe_combine"}; }

void run_combine(const Launch& launch) {
  const TensorView &x = launch[TERN_MOE_COMBINE_X], &y = launch[TERN_MOE_COMBINE_Y];
  const TensorView &places = launch[TERN_MOE_COMBINE_PLACES], &weights = launch[TERN_MOE_COMBINE_WEIGHTS];
  const Combine combine = make_combine(x, y, weights);
  launch.call(0).arg(x).arg(places).arg(weights).arg(y).arg(combine).overlapped().run(blocks_of(combine),
                                                                                      {kPlainThreads, 1, 1});
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

Functions combine_backward_functions(const PlanDesc& /*desc*/) { return {"moe_spread", "moe_weight_gradient"}; }

void run_combine_backward(const Launch& launch) {
  const TensorView &dy = launch[TERN_MOE_COMBINE_BACKWARD_DY], &x = launch[TERN_MOE_COMBINE_BACKWARD_X];
  const TensorView &dx = launch[TERN_MOE_COMBINE_BACKWARD_DX], &places = launch[TERN_MOE_COMBINE_BACKWARD_PLACES];
  const TensorView& weights = launch[TERN_MOE_COMBINE_BACKWARD_WEIGHTS];
  const TensorView& dweights = launch[TERN_MOE_COMBINE_BACKWARD_DWEIGHTS];
  Combine combine = make_combine(dx, dy, weights);
  launch.call(0).arg(dy).arg(places).arg(weights).arg(dx).arg(combine).run(blocks_of(combine), {kPlainThreads, 1, 1});
  if (!dweights.present()) return;
  combine.x_row = x.stride(0);
  combine.x_sub = x.stride(1);
  combine.x_col = x.stride(2);
  combine.dweights_row = dweights.stride(0);
  combine.dweights_col = dweights.stride(1);
  const std::int64_t choices = dx.dim(0) * dx.dim(1);
  launch.call(1).arg(dy).arg(x).arg(places).arg(dweights).arg(combine).run(choices * 32, kPlainThreads);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_MOE_ROUTE, "warps", route_supports, nullptr, route_functions, run_route},
    {TERN_OP_MOE_ROUTE_BACKWARD, "warps", route_backward_supports, nullptr, route_backward_functions,
     run_route_backward},
    {TERN_OP_MOE_PERMUTE, "parts", permute_supports, permute_workspace, permute_functions, run_permute},
    {TERN_OP_MOE_COMBINE, "vectors", combine_supports, nullptr, combine_functions, run_combine},
    {TERN_OP_MOE_COMBINE_BACKWARD, "vectors", combine_backward_supports, nullptr, combine_backward_functions,
     run_combine_backward}};

}  // namespace

KernelList moe_kernels() { return kKernels; }

}  // namespace tern::cuda
