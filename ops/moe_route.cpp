#include "ops/moe_route.h"

#include <cmath>

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_moe_route_attrs>(bytes);
  const std::int64_t experts = args[TERN_MOE_ROUTE_LOGITS].shape[1];
  const std::int64_t top_k = args[TERN_MOE_ROUTE_EXPERTS].shape[1];
  if (std::string problem =
          first_problem(require_flag("sigmoid", attrs.sigmoid), require_flag("normalise", attrs.normalise),
                        require(std::isfinite(attrs.scale), "scale: expected a number"),
                        require(attrs.groups >= 1 && experts % attrs.groups == 0,
                                cat("groups: expected a divisor of ", experts, ", found ", attrs.groups)));
      !problem.empty()) {
    return problem;
  }
  const std::int64_t of_group = experts / attrs.groups;
  return first_problem(
      require(attrs.top_groups >= 1 && attrs.top_groups <= attrs.groups,
              cat("top_groups: expected 1 to ", attrs.groups, ", found ", attrs.top_groups)),
      require(attrs.group_top >= 1 && attrs.group_top <= of_group,
              cat("group_top: expected 1 to ", of_group, ", found ", attrs.group_top)),
      require(top_k >= 1 && top_k <= attrs.top_groups * of_group,
              cat("experts: expected 1 to ", attrs.top_groups * of_group, " of each row, found ", top_k)));
}

std::string check_backward(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_moe_route_backward_attrs>(bytes);
  const std::int64_t experts = args[TERN_MOE_ROUTE_BACKWARD_LOGITS].shape[1];
  const std::int64_t top_k = args[TERN_MOE_ROUTE_BACKWARD_EXPERTS].shape[1];
  return first_problem(
      require_flag("sigmoid", attrs.sigmoid), require_flag("normalise", attrs.normalise),
      require(std::isfinite(attrs.scale), "scale: expected a number"),
      require(top_k >= 1 && top_k <= experts, cat("experts: expected 1 to ", experts, " of each row, found ", top_k)));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const Value dweights = grads.of_output(TERN_MOE_ROUTE_WEIGHTS);
  if (!grads.wanted(TERN_MOE_ROUTE_LOGITS) || !dweights.present()) return grads.take();
  const auto attrs = unpack_attrs<tern_moe_route_attrs>(call.call.attrs);
  const TensorDesc& logits = grads.desc(TERN_MOE_ROUTE_LOGITS);
  grads.give(TERN_MOE_ROUTE_LOGITS,
             CallBuilder(TERN_OP_MOE_ROUTE_BACKWARD, grads.needs())
                 .attrs(tern_moe_route_backward_attrs{attrs.sigmoid, attrs.normalise, attrs.scale})
                 .in(TERN_MOE_ROUTE_BACKWARD_DWEIGHTS, dweights)
                 .in(TERN_MOE_ROUTE_BACKWARD_LOGITS, grads.input(TERN_MOE_ROUTE_LOGITS))
                 .in(TERN_MOE_ROUTE_BACKWARD_EXPERTS, grads.result(TERN_MOE_ROUTE_EXPERTS))
                 .out(TERN_MOE_ROUTE_BACKWARD_DLOGITS, like(logits, logits.dtype))
                 .emit(grads.emitter(), TERN_MOE_ROUTE_BACKWARD_DLOGITS));
  return grads.take();
}

Indices indices(const CallDesc& call) {
  return {.ranges = {{TERN_MOE_ROUTE_BACKWARD_EXPERTS, 0, call[TERN_MOE_ROUTE_BACKWARD_LOGITS].shape[1] - 1}}};
}

std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  const bool is_row = named_rows(call, arg) == dim;
  return is_row ? by_name(call, arg, dim) : std::nullopt;
}

}  // namespace

MoeRoute moe_route(Emitter& emitter, Value logits, const MoeRouteOptions& options) {
  const TensorDesc& from = emitter.desc(logits);
  const std::int64_t rows = from.shape[0];
  const std::vector<Value> out =
      CallBuilder(TERN_OP_MOE_ROUTE, options.needs)
          .attrs(tern_moe_route_attrs{options.sigmoid ? 1 : 0, options.normalise ? 1 : 0, options.scale, options.groups,
                                      options.top_groups, options.group_top})
          .in(TERN_MOE_ROUTE_LOGITS, logits)
          .in(TERN_MOE_ROUTE_BIAS, options.bias)
          .out(TERN_MOE_ROUTE_WEIGHTS, rows_like(make_desc(TERN_F32, {rows, options.top_k}), from))
          .out(TERN_MOE_ROUTE_EXPERTS, rows_like(make_desc(TERN_I32, {rows, options.top_k}), from))
          .emit(emitter);
  return {out[TERN_MOE_ROUTE_WEIGHTS], out[TERN_MOE_ROUTE_EXPERTS]};
}

const OpRules moe_route_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::moe_route,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = split,
    .indices = no_indices,
    .needed_by = kEveryCommand,
};

const OpRules moe_route_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::moe_route_backward,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = split,
    .indices = indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
