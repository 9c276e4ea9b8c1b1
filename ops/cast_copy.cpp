#include "ops/cast_copy.h"

#include "base/dtype.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_CAST_COPY_X)) return grads.take();
  grads.give(TERN_CAST_COPY_X, cast_copy(grads.emitter(), grads.of_output(TERN_CAST_COPY_Y),
                                         {.out = grads.desc(TERN_CAST_COPY_X).dtype,
                                          .into = grads.absorb(TERN_CAST_COPY_X),
                                          .needs = grads.needs()}));
  return grads.take();
}

}  // namespace

Value cast_copy(Emitter& emitter, Value x, const CastCopyOptions& options) {
  CallBuilder builder(TERN_OP_CAST_COPY, options.needs);
  builder.in(TERN_CAST_COPY_X, x);
  const TensorDesc fresh = like(emitter.desc(x), options.out);
  if (options.into.present()) {
    builder.out(emitter, TERN_CAST_COPY_Y, fresh, options.into);
  } else {
    builder.place(emitter, TERN_CAST_COPY_Y, fresh, options.at);
  }
  return builder.emit(emitter, TERN_CAST_COPY_Y);
}

const OpRules cast_copy_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose_accumulate,
    .reference = ref::cast_copy,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = first_dimension,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
