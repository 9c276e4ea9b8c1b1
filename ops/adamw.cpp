#include "ops/adamw.h"

#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const TensorDesc& copy = call.outputs[TERN_ADAMW_COPY];
  if (!is_present(copy)) return {};
  OpCall plain = call;
  plain.outputs[TERN_ADAMW_COPY] = absent_desc();
  std::vector<Value> results = emitter.emit(plain);
  results[TERN_ADAMW_COPY] = cast_copy(emitter, results[TERN_ADAMW_PARAM], {.out = copy.dtype, .needs = call.needs});
  return results;
}

}  // namespace

AdamwState adamw(Emitter& emitter, const AdamwState& state, Value grad, Value hyper, tern_dtype copy,
                 std::uint32_t needs) {
  CallBuilder builder(TERN_OP_ADAMW, needs);
  builder.state(emitter, TERN_ADAMW_PARAM, state.param)
      .state(emitter, TERN_ADAMW_M, state.m)
      .state(emitter, TERN_ADAMW_V, state.v)
      .in(TERN_ADAMW_GRAD, grad)
      .in(TERN_ADAMW_HYPER, hyper);
  if (copy != TERN_F32) builder.out(TERN_ADAMW_COPY, like(emitter.desc(state.param), copy));
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_ADAMW_PARAM], out[TERN_ADAMW_M], out[TERN_ADAMW_V], out[TERN_ADAMW_COPY]};
}

const OpRules adamw_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = decompose,
    .reference = ref::adamw,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
