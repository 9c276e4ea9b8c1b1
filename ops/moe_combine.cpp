#include "ops/moe_combine.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

std::string check_backward(Args args, AttrBytes) {
  return require(is_present(args[TERN_MOE_COMBINE_BACKWARD_X]) == is_present(args[TERN_MOE_COMBINE_BACKWARD_DWEIGHTS]),
                 "x and dweights: expected both or neither");
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const bool of_weights = grads.wanted(TERN_MOE_COMBINE_WEIGHTS);
  if (!grads.wanted(TERN_MOE_COMBINE_X) && !of_weights) return grads.take();
  const TensorDesc& x = grads.desc(TERN_MOE_COMBINE_X);
  CallBuilder builder(TERN_OP_MOE_COMBINE_BACKWARD, grads.needs());
  builder.in(TERN_MOE_COMBINE_BACKWARD_DY, grads.of_output(TERN_MOE_COMBINE_Y))
      .in(TERN_MOE_COMBINE_BACKWARD_PLACES, grads.input(TERN_MOE_COMBINE_PLACES))
      .in(TERN_MOE_COMBINE_BACKWARD_WEIGHTS, grads.input(TERN_MOE_COMBINE_WEIGHTS))
      .out(TERN_MOE_COMBINE_BACKWARD_DX, like(x, x.dtype));
  if (of_weights) {
    builder.in(TERN_MOE_COMBINE_BACKWARD_X, grads.input(TERN_MOE_COMBINE_X))
        .out(TERN_MOE_COMBINE_BACKWARD_DWEIGHTS, like(grads.desc(TERN_MOE_COMBINE_WEIGHTS), TERN_F32));
  }
  const std::vector<Value> out = builder.emit(grads.emitter());
  if (grads.wanted(TERN_MOE_COMBINE_X)) grads.give(TERN_MOE_COMBINE_X, out[TERN_MOE_COMBINE_BACKWARD_DX]);
  if (of_weights) grads.give(TERN_MOE_COMBINE_WEIGHTS, out[TERN_MOE_COMBINE_BACKWARD_DWEIGHTS]);
  return grads.take();
}

// moe_combine of gradients or of x: [rows, width], added to `into`.
Value weighted_sum(const Gradients& grads, Value x, Value weights, Value into) {
  const TensorDesc& dy = grads.desc(TERN_MOE_COMBINE_BACKWARD_DY);
  return CallBuilder(TERN_OP_MOE_COMBINE, grads.needs())
      .in(TERN_MOE_COMBINE_X, x)
      .in(TERN_MOE_COMBINE_PLACES, grads.input(TERN_MOE_COMBINE_BACKWARD_PLACES))
      .in(TERN_MOE_COMBINE_WEIGHTS, weights)
      .out(grads.emitter(), TERN_MOE_COMBINE_Y, like(dy, dy.dtype), into)
      .emit(grads.emitter(), TERN_MOE_COMBINE_Y);
}

std::vector<Value> backward_of_backward(BackwardCall& call) {
  Gradients grads(call);
  const Value of_dx = grads.of_output(TERN_MOE_COMBINE_BACKWARD_DX);
  const Value of_dweights = grads.of_output(TERN_MOE_COMBINE_BACKWARD_DWEIGHTS);
  const Value x = grads.input(TERN_MOE_COMBINE_BACKWARD_X);
  if (grads.wanted(TERN_MOE_COMBINE_BACKWARD_DY)) {
    Value sum;
    if (of_dx.present()) sum = weighted_sum(grads, of_dx, grads.input(TERN_MOE_COMBINE_BACKWARD_WEIGHTS), {});
    if (of_dweights.present()) sum = weighted_sum(grads, x, of_dweights, sum);
    grads.give(TERN_MOE_COMBINE_BACKWARD_DY, sum);
  }
  const bool of_weights = grads.wanted(TERN_MOE_COMBINE_BACKWARD_WEIGHTS) && of_dx.present();
  const bool of_x = grads.wanted(TERN_MOE_COMBINE_BACKWARD_X) && of_dweights.present();
  if (!of_weights && !of_x) return grads.take();
  const TensorDesc dx = of_dx.present() ? grads.emitter().desc(of_dx) : grads.desc(TERN_MOE_COMBINE_BACKWARD_X);
  CallBuilder builder(TERN_OP_MOE_COMBINE_BACKWARD, grads.needs());
  builder.in(TERN_MOE_COMBINE_BACKWARD_DY, grads.input(TERN_MOE_COMBINE_BACKWARD_DY))
      .in(TERN_MOE_COMBINE_BACKWARD_PLACES, grads.input(TERN_MOE_COMBINE_BACKWARD_PLACES))
      .in(TERN_MOE_COMBINE_BACKWARD_WEIGHTS, of_dweights)
      .out(TERN_MOE_COMBINE_BACKWARD_DX, like(dx, dx.dtype));
  if (of_weights) {
    builder.in(TERN_MOE_COMBINE_BACKWARD_X, of_dx)
        .out(TERN_MOE_COMBINE_BACKWARD_DWEIGHTS, like(grads.desc(TERN_MOE_COMBINE_BACKWARD_WEIGHTS), TERN_F32));
  }
  const std::vector<Value> out = builder.emit(grads.emitter());
  if (of_weights) grads.give(TERN_MOE_COMBINE_BACKWARD_WEIGHTS, out[TERN_MOE_COMBINE_BACKWARD_DWEIGHTS]);
  if (of_x) grads.give(TERN_MOE_COMBINE_BACKWARD_X, out[TERN_MOE_COMBINE_BACKWARD_DX]);
  return grads.take();
}

// Rows of [rows, top_k, width] that places name.
Indices indices(const CallDesc& call) {
  const int places = call.op == TERN_OP_MOE_COMBINE ? int{TERN_MOE_COMBINE_PLACES} : TERN_MOE_COMBINE_BACKWARD_PLACES;
  return {.ranges = {{places, 0, num_elements(call[places]) - 1}}};
}

// Rows meet in any order; features stand alone.
std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  const bool is_feature = arg == TERN_MOE_COMBINE_X ? dim == 2 : arg == TERN_MOE_COMBINE_Y && dim == 1;
  return is_feature ? by_name(call, arg, dim) : std::nullopt;
}

}  // namespace

Value moe_combine(Emitter& emitter, Value x, Value places, const MoeCombineOptions& options) {
  const TensorDesc& from = emitter.desc(x);
  return CallBuilder(TERN_OP_MOE_COMBINE, options.needs)
      .in(TERN_MOE_COMBINE_X, x)
      .in(TERN_MOE_COMBINE_PLACES, places)
      .in(TERN_MOE_COMBINE_WEIGHTS, options.weights)
      .out(emitter, TERN_MOE_COMBINE_Y, rows_like(make_desc(options.out, {from.shape[0], from.shape[2]}), from),
           options.into)
      .emit(emitter, TERN_MOE_COMBINE_Y);
}

Value moe_scatter(Emitter& emitter, Value x, Value places, const MoeScatterOptions& options) {
  const TensorDesc& from = emitter.desc(x);
  const TensorDesc out = make_desc(options.out, {from.shape[0], emitter.desc(places).shape[1], from.shape[1]});
  return CallBuilder(TERN_OP_MOE_COMBINE_BACKWARD, options.needs)
      .in(TERN_MOE_COMBINE_BACKWARD_DY, x)
      .in(TERN_MOE_COMBINE_BACKWARD_PLACES, places)
      .in(TERN_MOE_COMBINE_BACKWARD_WEIGHTS, options.weights)
      .out(TERN_MOE_COMBINE_BACKWARD_DX, rows_like(out, from))
      .emit(emitter, TERN_MOE_COMBINE_BACKWARD_DX);
}

const OpRules moe_combine_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose_accumulate,
    .reference = ref::moe_combine,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = split,
    .indices = indices,
    .needed_by = kEveryCommand,
};

const OpRules moe_combine_backward_rules = {
    .check = check_backward,
    .backward = backward_of_backward,
    .decompose = nullptr,
    .reference = ref::moe_combine_backward,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kEveryCommand,
};

}  // namespace tern::ops
