#include "ops/scale.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/mul.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const Value dy = grads.of_output(TERN_SCALE_Y);
  if (grads.wanted(TERN_SCALE_X)) {
    grads.give(
        TERN_SCALE_X,
        scale(grads.emitter(), dy, grads.input(TERN_SCALE_FACTOR),
              {.out = grads.desc(TERN_SCALE_X).dtype, .into = grads.absorb(TERN_SCALE_X), .needs = grads.needs()}));
  }
  if (grads.wanted(TERN_SCALE_FACTOR)) {
    const Value products =
        mul(grads.emitter(), dy, grads.input(TERN_SCALE_X), {.out = TERN_F32, .needs = grads.needs()});
    grads.give(TERN_SCALE_FACTOR,
               reduce_all(grads.emitter(), products, grads.needs(), grads.absorb(TERN_SCALE_FACTOR)));
  }
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  TensorDesc wide = like(emitter.desc(arg(call, TERN_SCALE_X)), TERN_F32);
  for (std::int64_t& stride : wide.strides) stride = 0;
  const Value factor = emitter.view(arg(call, TERN_SCALE_FACTOR), wide, 0);
  return {{},
          {},
          mul(emitter, arg(call, TERN_SCALE_X), factor,
              {.out = call.outputs[TERN_SCALE_Y].dtype, .into = arg(call, TERN_SCALE_Y), .needs = call.needs})};
}

int row_dim(const CallDesc&, int arg) { return arg == TERN_SCALE_FACTOR ? -1 : 0; }

}  // namespace

Value scale(Emitter& emitter, Value x, Value factor, const ScaleOptions& options) {
  return CallBuilder(TERN_OP_SCALE, options.needs)
      .in(TERN_SCALE_X, x)
      .in(TERN_SCALE_FACTOR, factor)
      .out(emitter, TERN_SCALE_Y, like(emitter.desc(x), options.out), options.into)
      .emit(emitter, TERN_SCALE_Y);
}

const OpRules scale_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::scale,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = row_dim,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
