#include "ops/act.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes bytes) {
  const auto kind = unpack_attrs<tern_act_attrs>(bytes).kind;
  return require(kind >= TERN_ACT_SILU && kind <= TERN_ACT_QUICK_GELU, cat("kind: no such tern_act: ", kind));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_ACT_X)) return grads.take();
  const TensorDesc& x = grads.desc(TERN_ACT_X);
  grads.give(TERN_ACT_X, CallBuilder(TERN_OP_ACT_BACKWARD, grads.needs())
                             .attrs(tern_act_backward_attrs{unpack_attrs<tern_act_attrs>(call.call.attrs).kind})
                             .in(TERN_ACT_BACKWARD_DY, grads.of_output(TERN_ACT_Y))
                             .in(TERN_ACT_BACKWARD_X, grads.input(TERN_ACT_X))
                             .out(TERN_ACT_BACKWARD_DX, like(x, x.dtype))
                             .emit(grads.emitter(), TERN_ACT_BACKWARD_DX));
  return grads.take();
}

}  // namespace

Value act(Emitter& emitter, Value x, const ActOptions& options) {
  return CallBuilder(TERN_OP_ACT, options.needs)
      .attrs(tern_act_attrs{options.kind})
      .in(TERN_ACT_X, x)
      .out(TERN_ACT_Y, like(emitter.desc(x), options.out))
      .emit(emitter, TERN_ACT_Y);
}

const OpRules act_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::act,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = first_dimension,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kEveryCommand,
};
const OpRules act_backward_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::act_backward,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = first_dimension,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
