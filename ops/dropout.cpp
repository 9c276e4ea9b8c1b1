#include "ops/dropout.h"

#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/check.h"
#include "ops/mul.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes bytes) {
  const float rate = unpack_attrs<tern_dropout_attrs>(bytes).rate;
  return require(rate >= 0.0F && rate < 1.0F, cat("rate: expected [0, 1), found ", rate));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_DROPOUT_X)) return grads.take();
  const auto attrs = unpack_attrs<tern_dropout_attrs>(call.call.attrs);
  grads.give(TERN_DROPOUT_X, dropout(grads.emitter(), grads.of_output(TERN_DROPOUT_Y), grads.input(TERN_DROPOUT_KEYS),
                                     {.rate = attrs.rate,
                                      .site = attrs.site,
                                      .mask = grads.input(TERN_DROPOUT_MASK),
                                      .out = grads.desc(TERN_DROPOUT_X).dtype,
                                      .into = grads.absorb(TERN_DROPOUT_X),
                                      .needs = grads.needs()}));
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const Value mask = arg(call, TERN_DROPOUT_MASK);
  if (!mask.present()) return decompose_accumulate(emitter, call);
  const auto attrs = unpack_attrs<tern_dropout_attrs>(call.attrs);
  const Value keep = cast_copy(emitter, mask, {.out = TERN_F32, .needs = call.needs});
  const Value kept = mul(emitter, arg(call, TERN_DROPOUT_X), keep, {.out = TERN_F32, .needs = call.needs});
  return {{},
          {},
          {},
          axpby(emitter, kept, {},
                {.a = 1.0F / (1.0F - attrs.rate),
                 .out = call.outputs[TERN_DROPOUT_Y].dtype,
                 .into = arg(call, TERN_DROPOUT_Y),
                 .needs = call.needs})};
}

}  // namespace

Value dropout(Emitter& emitter, Value x, Value keys, const DropoutOptions& options) {
  return CallBuilder(TERN_OP_DROPOUT, options.needs)
      .attrs(tern_dropout_attrs{options.rate, options.site})
      .in(TERN_DROPOUT_X, x)
      .in(TERN_DROPOUT_KEYS, keys)
      .in(TERN_DROPOUT_MASK, options.mask)
      .out(emitter, TERN_DROPOUT_Y, like(emitter.desc(x), options.out), options.into)
      .emit(emitter, TERN_DROPOUT_Y);
}

const OpRules dropout_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::dropout,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
