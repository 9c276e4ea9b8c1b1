#include "ops/scatter_add_rows.h"

#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/check.h"
#include "ops/gather_rows.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_SCATTER_ADD_ROWS_X)) return grads.take();
  Emitter& emitter = grads.emitter();
  const Value dy = grads.of_output(TERN_SCATTER_ADD_ROWS_Y);
  const Value dx = gather_rows(emitter, dy, grads.input(TERN_SCATTER_ADD_ROWS_INDEX), grads.needs());
  const tern_dtype dtype = grads.desc(TERN_SCATTER_ADD_ROWS_X).dtype;
  grads.give(TERN_SCATTER_ADD_ROWS_X,
             emitter.desc(dx).dtype == dtype ? dx : cast_copy(emitter, dx, {.out = dtype, .needs = grads.needs()}));
  return grads.take();
}

// Below 0: skipped.
Indices indices(const CallDesc& call) {
  return {.ranges = {{TERN_SCATTER_ADD_ROWS_INDEX, INT32_MIN, call[TERN_SCATTER_ADD_ROWS_Y].shape[0] - 1}}};
}

std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  if (arg == TERN_SCATTER_ADD_ROWS_Y && dim == 0) {
    return Split{.along = {{arg, dim}}, .indices = {TERN_SCATTER_ADD_ROWS_INDEX}};
  }
  if (dim == 1) return by_name(call, arg, dim);
  return std::nullopt;  // rows meet in y
}

}  // namespace

Value scatter_add_rows(Emitter& emitter, Value x, Value index, std::int64_t n, const ScatterAddRowsOptions& options) {
  return CallBuilder(TERN_OP_SCATTER_ADD_ROWS, options.needs)
      .in(TERN_SCATTER_ADD_ROWS_X, x)
      .in(TERN_SCATTER_ADD_ROWS_INDEX, index)
      .out(emitter, TERN_SCATTER_ADD_ROWS_Y, make_desc(options.out, {n, emitter.desc(x).shape[1]}), options.into)
      .emit(emitter, TERN_SCATTER_ADD_ROWS_Y);
}

const OpRules scatter_add_rows_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose_accumulate,
    .reference = ref::scatter_add_rows,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = split,
    .indices = indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
