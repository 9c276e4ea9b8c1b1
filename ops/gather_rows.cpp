#include "ops/gather_rows.h"

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
  const Value into = grads.absorb(TERN_GATHER_ROWS_X);
  const Value sum = scatter_add_rows(
      emitter, as_matrix(emitter, grads.of_output(TERN_GATHER_ROWS_Y)), grads.input(TERN_GATHER_ROWS_INDEX), x.shape[0],
      {.out = x.dtype, .into = into.present() ? as_matrix(emitter, into) : Value{}, .needs = grads.needs()});
  grads.give(TERN_GATHER_ROWS_X, x.rank == 2 ? sum : emitter.view(sum, like(x, emitter.desc(sum).dtype), 0));
  return grads.take();
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

const OpRules gather_rows_rules = {check, backward, nullptr, ref::gather_rows};

}  // namespace tern::ops
