#include "ops/fill.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

}  // namespace

Value fill(Emitter& emitter, const TensorDesc& desc, float value, const FillOptions& options) {
  return CallBuilder(TERN_OP_FILL, options.needs)
      .attrs(tern_fill_attrs{value})
      .place(emitter, TERN_FILL_Y, desc, options.at)
      .emit(emitter, TERN_FILL_Y);
}

const OpRules fill_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::fill,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = first_dimension,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
