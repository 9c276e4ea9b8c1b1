#include "ops/dequantize.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

}  // namespace

Value dequantize(Emitter& emitter, Value w, tern_dtype out, std::uint32_t needs) {
  return CallBuilder(TERN_OP_DEQUANTIZE, needs)
      .in(TERN_DEQUANTIZE_W, w)
      .out(TERN_DEQUANTIZE_Y, like(emitter.desc(w), out))
      .emit(emitter, TERN_DEQUANTIZE_Y);
}

const OpRules dequantize_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::dequantize,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
