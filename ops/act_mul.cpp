#include "ops/act_mul.h"

#include <cmath>

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_act_mul_attrs>(bytes);
  const bool known =
      (attrs.kind >= TERN_ACT_SILU && attrs.kind <= TERN_ACT_SIGMOID) || attrs.kind == TERN_ACT_QUICK_GELU;
  return first_problem(require(known, cat("kind: no such tern_act: ", attrs.kind)),
                       require(attrs.limit >= 0.0F && std::isfinite(attrs.limit), "limit: 0 or a positive number"),
                       require(std::isfinite(attrs.up_offset), "up_offset: a finite number"));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const auto attrs = unpack_attrs<tern_act_mul_attrs>(call.call.attrs);
  const TensorDesc gate = grads.desc(TERN_ACT_MUL_GATE);
  const TensorDesc up = grads.desc(TERN_ACT_MUL_UP);
  const std::vector<Value> out = CallBuilder(TERN_OP_ACT_MUL_BACKWARD, grads.needs())
                                     .attrs(tern_act_mul_backward_attrs{attrs.kind, attrs.limit, attrs.up_offset})
                                     .in(TERN_ACT_MUL_BACKWARD_DY, grads.of_output(TERN_ACT_MUL_Y))
                                     .in(TERN_ACT_MUL_BACKWARD_GATE, grads.input(TERN_ACT_MUL_GATE))
                                     .in(TERN_ACT_MUL_BACKWARD_UP, grads.input(TERN_ACT_MUL_UP))
                                     .out(TERN_ACT_MUL_BACKWARD_DGATE, like(gate, gate.dtype))
                                     .out(TERN_ACT_MUL_BACKWARD_DUP, like(up, up.dtype))
                                     .emit(grads.emitter());
  if (grads.wanted(TERN_ACT_MUL_GATE)) grads.give(TERN_ACT_MUL_GATE, out[TERN_ACT_MUL_BACKWARD_DGATE]);
  if (grads.wanted(TERN_ACT_MUL_UP)) grads.give(TERN_ACT_MUL_UP, out[TERN_ACT_MUL_BACKWARD_DUP]);
  return grads.take();
}

}  // namespace

Value act_mul(Emitter& emitter, Value gate, Value up, const ActMulOptions& options) {
  return CallBuilder(TERN_OP_ACT_MUL, options.needs)
      .attrs(tern_act_mul_attrs{options.kind, options.limit, options.up_offset})
      .in(TERN_ACT_MUL_GATE, gate)
      .in(TERN_ACT_MUL_UP, up)
      .out(TERN_ACT_MUL_Y, like(emitter.desc(gate), options.out))
      .emit(emitter, TERN_ACT_MUL_Y);
}

const OpRules act_mul_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::act_mul,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kEveryCommand,
};
const OpRules act_mul_backward_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::act_mul_backward,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
