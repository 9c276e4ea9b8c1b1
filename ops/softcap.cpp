#include "ops/softcap.h"

#include <cmath>

#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/mul.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes bytes) {
  const float cap = unpack_attrs<tern_softcap_attrs>(bytes).cap;
  return require(cap > 0.0F && std::isfinite(cap), cat("cap: expected a finite number above 0, found ", cap));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_SOFTCAP_X)) return grads.take();
  Emitter& emitter = grads.emitter();
  const float cap = unpack_attrs<tern_softcap_attrs>(call.call.attrs).cap;
  const Value dy = grads.of_output(TERN_SOFTCAP_Y);
  const Value y = grads.result(TERN_SOFTCAP_Y);
  const MulOptions wide{.out = TERN_F32, .into = {}, .needs = grads.needs()};
  const Value share = axpby(emitter, y, {}, {.a = 1.0F / cap, .out = TERN_F32, .into = {}, .needs = grads.needs()});
  const Value lost = mul(emitter, mul(emitter, dy, share, wide), share, wide);
  grads.give(TERN_SOFTCAP_X, axpby(emitter, dy, lost,
                                   {.a = 1.0F,
                                    .b = -1.0F,
                                    .out = grads.desc(TERN_SOFTCAP_X).dtype,
                                    .into = grads.absorb(TERN_SOFTCAP_X),
                                    .needs = grads.needs()}));
  return grads.take();
}

}  // namespace

Value softcap(Emitter& emitter, Value x, const SoftcapOptions& options) {
  return CallBuilder(TERN_OP_SOFTCAP, options.needs)
      .attrs(tern_softcap_attrs{options.cap})
      .in(TERN_SOFTCAP_X, x)
      .out(TERN_SOFTCAP_Y, like(emitter.desc(x), options.out))
      .emit(emitter, TERN_SOFTCAP_Y);
}

const OpRules softcap_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::softcap,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = first_dimension,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kInfer | kServe,
};

}  // namespace tern::ops
