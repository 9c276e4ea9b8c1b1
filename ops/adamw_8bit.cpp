#include "ops/adamw_8bit.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes) {
  const TensorDesc& param = args[TERN_ADAMW_8BIT_PARAM];
  const std::int64_t blocks = adamw_8bit_blocks(num_elements(param));
  const std::int64_t found = args[TERN_ADAMW_8BIT_M_MAX].shape[0];
  std::string problem = require(found == blocks, cat("m_max: expected one for each 256 elements, ", blocks, ", found ",
                                                     found));
  for (const int arg : {TERN_ADAMW_8BIT_PARAM, TERN_ADAMW_8BIT_M, TERN_ADAMW_8BIT_V, TERN_ADAMW_8BIT_GRAD}) {
    if (problem.empty()) problem = require(is_contiguous(args[arg]), "param, m, v, grad: expected contiguous tensors");
  }
  return problem;
}

}  // namespace

Adamw8bitState adamw_8bit(Emitter& emitter, const Adamw8bitState& state, Value grad, const Adamw8bitCodes& codes,
                          Value hyper, std::uint32_t needs) {
  const std::vector<Value> out = CallBuilder(TERN_OP_ADAMW_8BIT, needs)
                                     .state(emitter, TERN_ADAMW_8BIT_PARAM, state.param)
                                     .state(emitter, TERN_ADAMW_8BIT_M, state.m)
                                     .state(emitter, TERN_ADAMW_8BIT_V, state.v)
                                     .state(emitter, TERN_ADAMW_8BIT_M_MAX, state.m_max)
                                     .state(emitter, TERN_ADAMW_8BIT_V_MAX, state.v_max)
                                     .in(TERN_ADAMW_8BIT_GRAD, grad)
                                     .in(TERN_ADAMW_8BIT_M_CODES, codes.m)
                                     .in(TERN_ADAMW_8BIT_V_CODES, codes.v)
                                     .in(TERN_ADAMW_8BIT_HYPER, hyper)
                                     .emit(emitter);
  return {out[TERN_ADAMW_8BIT_PARAM], out[TERN_ADAMW_8BIT_M], out[TERN_ADAMW_8BIT_V], out[TERN_ADAMW_8BIT_M_MAX],
          out[TERN_ADAMW_8BIT_V_MAX]};
}

const OpRules adamw_8bit_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::adamw_8bit,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
