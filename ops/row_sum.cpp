#include "ops/row_sum.h"

#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes bytes) {
  const auto axis = unpack_attrs<tern_row_sum_attrs>(bytes).axis;
  if (axis != 0 && axis != 1) return cat("axis: expected 0 or 1, found ", axis);
  const TensorDesc& out = args[TERN_ROW_SUM_OUT];
  const std::int64_t kept = args[TERN_ROW_SUM_X].shape[1 - axis];
  return require(out.rank == 1 && out.shape[0] == kept, cat("out: expected [", kept, "], found ", to_string(out)));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_ROW_SUM_X)) return grads.take();
  const auto axis = unpack_attrs<tern_row_sum_attrs>(call.call.attrs).axis;
  const TensorDesc x = grads.desc(TERN_ROW_SUM_X);
  const Value dout = grads.of_output(TERN_ROW_SUM_OUT);
  TensorDesc wide = like(x, grads.emitter().desc(dout).dtype);
  wide.strides[1 - axis] = grads.emitter().desc(dout).strides[0];
  wide.strides[axis] = 0;
  grads.give(TERN_ROW_SUM_X, axpby(grads.emitter(), grads.emitter().view(dout, wide, 0), {},
                                   {.out = x.dtype, .into = grads.absorb(TERN_ROW_SUM_X), .needs = grads.needs()}));
  return grads.take();
}

// Over axis 0 every row takes part in every sum.
int row_dim(const CallDesc& call, int) { return unpack_attrs<tern_row_sum_attrs>(call.attrs).axis == 1 ? 0 : -1; }

std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  const auto axis = unpack_attrs<tern_row_sum_attrs>(call.attrs).axis;
  if (arg == TERN_ROW_SUM_X && dim == axis) return Split{.along = {{arg, dim}}, .sums = {TERN_ROW_SUM_OUT}};
  return Split{.along = {{TERN_ROW_SUM_X, 1 - axis}, {TERN_ROW_SUM_OUT, 0}}};
}

}  // namespace

Value row_sum(Emitter& emitter, Value x, const RowSumOptions& options) {
  const TensorDesc& from = emitter.desc(x);
  const int kept = 1 - options.axis;
  TensorDesc out = make_desc(options.out, {from.shape[kept]});
  if (from.dynamic_dim == kept) out = with_dynamic(out, 0, from.count_slot);
  return CallBuilder(TERN_OP_ROW_SUM, options.needs)
      .attrs(tern_row_sum_attrs{options.axis})
      .in(TERN_ROW_SUM_X, x)
      .out(emitter, TERN_ROW_SUM_OUT, out, options.into)
      .emit(emitter, TERN_ROW_SUM_OUT);
}

const OpRules row_sum_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose_accumulate,
    .reference = ref::row_sum,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = row_dim,
    .split = split,
    .indices = no_indices,
    .needed_by = kEveryCommand,
};

}  // namespace tern::ops
