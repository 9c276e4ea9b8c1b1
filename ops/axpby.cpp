#include "ops/axpby.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const auto attrs = unpack_attrs<tern_axpby_attrs>(call.call.attrs);
  for (int arg : {TERN_AXPBY_X, TERN_AXPBY_Y}) {
    if (!grads.wanted(arg)) continue;
    grads.give(arg, axpby(grads.emitter(), grads.of_output(TERN_AXPBY_OUT), {},
                          {.a = arg == TERN_AXPBY_X ? attrs.a : attrs.b,
                           .out = grads.desc(arg).dtype,
                           .into = grads.absorb(arg),
                           .needs = grads.needs()}));
  }
  return grads.take();
}

}  // namespace

Value axpby(Emitter& emitter, Value x, Value y, const AxpbyOptions& options) {
  return CallBuilder(TERN_OP_AXPBY, options.needs)
      .attrs(tern_axpby_attrs{options.a, options.b})
      .in(TERN_AXPBY_X, x)
      .in(TERN_AXPBY_Y, y)
      .out(emitter, TERN_AXPBY_OUT, like(emitter.desc(x), options.out), options.into)
      .emit(emitter, TERN_AXPBY_OUT);
}

const OpRules axpby_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::axpby,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = first_dimension,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kEveryCommand,
};

}  // namespace tern::ops
