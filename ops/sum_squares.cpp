#include "ops/sum_squares.h"

#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/mul.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"
#include "ops/scale.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_SUM_SQUARES_X)) return grads.take();
  Value x = grads.input(TERN_SUM_SQUARES_X);
  const tern_dtype dtype = grads.desc(TERN_SUM_SQUARES_X).dtype;
  if (!grads.of_output_is_one(TERN_SUM_SQUARES_OUT)) {
    const Value dout = grads.of_output(TERN_SUM_SQUARES_OUT);
    x = scale(grads.emitter(), x, dout, {.out = TERN_F32, .needs = grads.needs()});
  }
  grads.give(TERN_SUM_SQUARES_X,
             axpby(grads.emitter(), x, {},
                   {.a = 2.0F, .out = dtype, .into = grads.absorb(TERN_SUM_SQUARES_X), .needs = grads.needs()}));
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const Value x = arg(call, TERN_SUM_SQUARES_X);
  const TensorDesc& desc = emitter.desc(x);
  if (desc.dynamic_dim > 0 || num_elements(desc) == 0) return {};
  const Value squares = mul(emitter, x, x, {.out = TERN_F32, .needs = call.needs});
  return {{}, reduce_all(emitter, squares, call.needs, arg(call, TERN_SUM_SQUARES_OUT))};
}

std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  auto cut = by_name(call, arg, dim);
  if (cut) cut->sums = {TERN_SUM_SQUARES_OUT};
  return cut;
}

}  // namespace

Value sum_squares(Emitter& emitter, Value x, Value into, std::uint32_t needs) {
  return CallBuilder(TERN_OP_SUM_SQUARES, needs)
      .in(TERN_SUM_SQUARES_X, x)
      .out(emitter, TERN_SUM_SQUARES_OUT, make_desc(TERN_F32, {1}), into)
      .emit(emitter, TERN_SUM_SQUARES_OUT);
}

const OpRules sum_squares_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::sum_squares,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = split,
    .indices = no_indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
