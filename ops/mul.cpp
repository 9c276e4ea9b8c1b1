#include "ops/mul.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  for (int arg : {TERN_MUL_X, TERN_MUL_Y}) {
    if (!grads.wanted(arg)) continue;
    const Value other = grads.input(arg == TERN_MUL_X ? TERN_MUL_Y : TERN_MUL_X);
    grads.give(arg, mul(grads.emitter(), grads.of_output(TERN_MUL_OUT), other,
                        {.out = grads.desc(arg).dtype, .into = grads.absorb(arg), .needs = grads.needs()}));
  }
  return grads.take();
}

}  // namespace

Value mul(Emitter& emitter, Value x, Value y, const MulOptions& options) {
  return CallBuilder(TERN_OP_MUL, options.needs)
      .in(TERN_MUL_X, x)
      .in(TERN_MUL_Y, y)
      .out(emitter, TERN_MUL_OUT, like(emitter.desc(x), options.out), options.into)
      .emit(emitter, TERN_MUL_OUT);
}

const OpRules mul_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose_accumulate,
    .reference = ref::mul,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = first_dimension,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
