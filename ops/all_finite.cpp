#include "ops/all_finite.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

// Its sum is the logical and.
std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  auto cut = by_name(call, arg, dim);
  if (cut) cut->sums = {TERN_ALL_FINITE_OUT};
  return cut;
}

}  // namespace

Value all_finite(Emitter& emitter, Value x, Value into, std::uint32_t needs) {
  return CallBuilder(TERN_OP_ALL_FINITE, needs)
      .in(TERN_ALL_FINITE_X, x)
      .out(emitter, TERN_ALL_FINITE_OUT, make_desc(TERN_I32, {1}), into)
      .emit(emitter, TERN_ALL_FINITE_OUT);
}

const OpRules all_finite_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::all_finite,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = split,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
