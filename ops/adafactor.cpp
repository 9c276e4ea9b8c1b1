#include "ops/adafactor.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes sizes_of(const TensorDesc& desc) {
  const auto shape = shape_of(desc);
  return {shape.begin(), shape.end()};
}

// A shape without one of its last two dimensions: 2 leaves the rows out, 1 the columns.
Sizes without(const TensorDesc& param, int from_end) {
  Sizes sizes = sizes_of(param);
  sizes.erase(sizes.end() - from_end);
  return sizes;
}

std::string check(Args args, AttrBytes) {
  const TensorDesc& param = args[TERN_ADAFACTOR_PARAM];
  const TensorDesc& row = args[TERN_ADAFACTOR_ROW];
  const TensorDesc& col = args[TERN_ADAFACTOR_COL];
  const TensorDesc& v = args[TERN_ADAFACTOR_V];
  if (is_present(row) != is_present(col) || is_present(row) == is_present(v)) {
    return "row, col, v: expected row and col, or v alone";
  }
  if (is_present(v)) return require(sizes_of(v) == sizes_of(param), "v: expected the shape of param");
  if (param.rank < 2) return "param: expected a matrix, as row and col are there";
  return first_problem(require(sizes_of(row) == without(param, 1), "row: expected param's shape without its last"),
                       require(sizes_of(col) == without(param, 2), "col: expected param's shape without its last but one"));
}

}  // namespace

AdafactorState adafactor(Emitter& emitter, const AdafactorState& state, Value grad, Value hyper,
                         std::uint32_t needs) {
  CallBuilder builder(TERN_OP_ADAFACTOR, needs);
  const auto add = [&](int arg, Value value) {
    if (value.present()) builder.state(emitter, arg, value);
  };
  add(TERN_ADAFACTOR_PARAM, state.param);
  add(TERN_ADAFACTOR_ROW, state.row);
  add(TERN_ADAFACTOR_COL, state.col);
  add(TERN_ADAFACTOR_V, state.v);
  add(TERN_ADAFACTOR_M, state.m);
  builder.in(TERN_ADAFACTOR_GRAD, grad).in(TERN_ADAFACTOR_HYPER, hyper);
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_ADAFACTOR_PARAM], out[TERN_ADAFACTOR_ROW], out[TERN_ADAFACTOR_COL], out[TERN_ADAFACTOR_V],
          out[TERN_ADAFACTOR_M]};
}

const OpRules adafactor_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::adafactor,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
