#include "ops/lion.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

}  // namespace

LionState lion(Emitter& emitter, const LionState& state, Value grad, Value hyper, std::uint32_t needs) {
  const std::vector<Value> out = CallBuilder(TERN_OP_LION, needs)
                                     .state(emitter, TERN_LION_PARAM, state.param)
                                     .state(emitter, TERN_LION_M, state.m)
                                     .in(TERN_LION_GRAD, grad)
                                     .in(TERN_LION_HYPER, hyper)
                                     .emit(emitter);
  return {out[TERN_LION_PARAM], out[TERN_LION_M]};
}

const OpRules lion_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::lion,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
