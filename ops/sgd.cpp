#include "ops/sgd.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

}  // namespace

SgdState sgd(Emitter& emitter, const SgdState& state, Value grad, Value hyper, std::uint32_t needs) {
  CallBuilder builder(TERN_OP_SGD, needs);
  builder.state(emitter, TERN_SGD_PARAM, state.param);
  if (state.buf.present()) builder.state(emitter, TERN_SGD_BUF, state.buf);
  builder.in(TERN_SGD_GRAD, grad).in(TERN_SGD_HYPER, hyper);
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_SGD_PARAM], out[TERN_SGD_BUF]};
}

const OpRules sgd_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::sgd,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
