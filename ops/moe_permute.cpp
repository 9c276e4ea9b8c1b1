#include "ops/moe_permute.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/moe_combine.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes) {
  const TensorDesc& offsets = args[TERN_MOE_PERMUTE_OFFSETS];
  return require(offsets.shape[0] >= 2,
                 cat("offsets: expected those of 1 expert at least, found ", to_string(offsets)));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_MOE_PERMUTE_X)) return grads.take();
  grads.give(TERN_MOE_PERMUTE_X,
             moe_combine(grads.emitter(), grads.of_output(TERN_MOE_PERMUTE_Y), grads.result(TERN_MOE_PERMUTE_PLACES),
                         {.out = grads.desc(TERN_MOE_PERMUTE_X).dtype,
                          .into = grads.absorb(TERN_MOE_PERMUTE_X),
                          .needs = grads.needs()}));
  return grads.take();
}

Indices indices(const CallDesc& call) {
  return {.ranges = {{TERN_MOE_PERMUTE_EXPERTS, 0, call[TERN_MOE_PERMUTE_OFFSETS].shape[0] - 2}}};
}

}  // namespace

MoePermute moe_permute(Emitter& emitter, Value x, Value experts, std::int64_t num_experts, std::uint32_t needs) {
  const TensorDesc& from = emitter.desc(x);
  const std::int64_t rows = from.shape[0];
  const std::int64_t top_k = emitter.desc(experts).shape[1];
  const std::vector<Value> out =
      CallBuilder(TERN_OP_MOE_PERMUTE, needs)
          .in(TERN_MOE_PERMUTE_X, x)
          .in(TERN_MOE_PERMUTE_EXPERTS, experts)
          .out(TERN_MOE_PERMUTE_Y, rows_like(make_desc(from.dtype, {rows, top_k, from.shape[1]}), from))
          .out(TERN_MOE_PERMUTE_PLACES, rows_like(make_desc(TERN_I32, {rows, top_k}), from))
          .out(TERN_MOE_PERMUTE_OFFSETS, make_desc(TERN_I32, {num_experts + 1}))
          .emit(emitter);
  return {out[TERN_MOE_PERMUTE_Y], out[TERN_MOE_PERMUTE_PLACES], out[TERN_MOE_PERMUTE_OFFSETS]};
}

const OpRules moe_permute_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::moe_permute,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kEveryCommand,
};

}  // namespace tern::ops
