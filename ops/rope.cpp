#include "ops/rope.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_rope_attrs>(bytes);
  return first_problem(require_flag("interleaved", attrs.interleaved), require_flag("inverse", attrs.inverse),
                       require(args[TERN_ROPE_COS].shape[1] * 2 <= args[TERN_ROPE_X].shape[2],
                               "cos: more features are rotated than a head has"));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_ROPE_X)) return grads.take();
  const auto attrs = unpack_attrs<tern_rope_attrs>(call.call.attrs);
  grads.give(TERN_ROPE_X, rope(grads.emitter(), grads.of_output(TERN_ROPE_Y), grads.input(TERN_ROPE_POSITIONS),
                               grads.input(TERN_ROPE_COS), grads.input(TERN_ROPE_SIN),
                               {.interleaved = attrs.interleaved != 0,
                                .inverse = attrs.inverse == 0,
                                .out = grads.desc(TERN_ROPE_X).dtype,
                                .into = grads.absorb(TERN_ROPE_X),
                                .needs = grads.needs()}));
  return grads.take();
}

double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  const bool table = arg == TERN_ROPE_COS || arg == TERN_ROPE_SIN;
  return table ? bytes_of_rows(call, arg, TERN_ROPE_POSITIONS) : each_argument_once(call, arg, lengths);
}

Indices indices(const CallDesc& call) {
  return {.ranges = {{TERN_ROPE_POSITIONS, 0, call[TERN_ROPE_COS].shape[0] - 1}}};
}

}  // namespace

Value rope(Emitter& emitter, Value x, Value positions, Value cos, Value sin, const RopeOptions& options) {
  return CallBuilder(TERN_OP_ROPE, options.needs)
      .attrs(tern_rope_attrs{options.interleaved ? 1 : 0, options.inverse ? 1 : 0})
      .in(TERN_ROPE_X, x)
      .in(TERN_ROPE_POSITIONS, positions)
      .in(TERN_ROPE_COS, cos)
      .in(TERN_ROPE_SIN, sin)
      .out(emitter, TERN_ROPE_Y, like(emitter.desc(x), options.out), options.into)
      .emit(emitter, TERN_ROPE_Y);
}

const OpRules rope_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose_accumulate,
    .reference = ref::rope,
    .work = {no_products, bytes},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kEveryCommand,
};

}  // namespace tern::ops
