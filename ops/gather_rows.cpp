#include "ops/gather_rows.h"

#include "base/dtype.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"
#include "ops/scatter_add_rows.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes) {
  return require(args[TERN_GATHER_ROWS_X].dtype == args[TERN_GATHER_ROWS_Y].dtype, "y: expected x's dtype");
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_GATHER_ROWS_X)) return grads.take();
  Emitter& emitter = grads.emitter();
  const TensorDesc x = grads.desc(TERN_GATHER_ROWS_X);
  const Value dy = grads.of_output(TERN_GATHER_ROWS_Y);
  const Value rows = x.rank == 2 ? dy : as_matrix(emitter, contiguous(emitter, dy, grads.needs()));
  const Value held = grads.into(TERN_GATHER_ROWS_X);
  Value into;
  if (held.present() && (x.rank == 2 || is_contiguous(emitter.desc(held)))) {
    into = as_matrix(emitter, grads.absorb(TERN_GATHER_ROWS_X));
  }
  const Value sum = scatter_add_rows(emitter, rows, grads.input(TERN_GATHER_ROWS_INDEX), x.shape[0],
                                     {.out = x.dtype, .into = into, .needs = grads.needs()});
  // The gradient's rows count as x's do: other arguments of the op that it goes to carry that count.
  const bool same = x.rank == 2 && x.dynamic_dim < 0;
  grads.give(TERN_GATHER_ROWS_X, same ? sum : emitter.view(sum, like(x, emitter.desc(sum).dtype), 0));
  return grads.take();
}

// As many rows of x as y has.
double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  return arg == TERN_GATHER_ROWS_X ? whole_bytes(call, TERN_GATHER_ROWS_Y) : each_argument_once(call, arg, lengths);
}

// Below 0: a row of zeros.
Indices indices(const CallDesc& call) {
  return {.ranges = {{TERN_GATHER_ROWS_INDEX, INT32_MIN, call[TERN_GATHER_ROWS_X].shape[0] - 1}}};
}

// Integers have no sum.
std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  if (arg != TERN_GATHER_ROWS_X || dim != 0) return by_name(call, arg, dim);
  if (!dtype_info(call[arg].dtype).floating) return std::nullopt;
  return Split{.along = {{arg, dim}}, .sums = {TERN_GATHER_ROWS_Y}, .indices = {TERN_GATHER_ROWS_INDEX}};
}

}  // namespace

Value gather_rows(Emitter& emitter, Value x, Value index, std::uint32_t needs) {
  const TensorDesc& from = emitter.desc(x);
  std::vector<std::int64_t> shape(from.shape, from.shape + from.rank);
  shape[0] = emitter.desc(index).shape[0];
  return CallBuilder(TERN_OP_GATHER_ROWS, needs)
      .in(TERN_GATHER_ROWS_X, x)
      .in(TERN_GATHER_ROWS_INDEX, index)
      .out(TERN_GATHER_ROWS_Y, rows_like(make_desc(from.dtype, shape), emitter.desc(index)))
      .emit(emitter, TERN_GATHER_ROWS_Y);
}

const OpRules gather_rows_rules = {
    .check = check,
    .backward = backward,
    .decompose = nullptr,
    .reference = ref::gather_rows,
    .work = {no_products, bytes},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = split,
    .indices = indices,
    .needed_by = kEveryCommand,
};

}  // namespace tern::ops
