#include "ops/merge_lse.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes) {
  return require(args[TERN_MERGE_LSE_ROW_MAX].shape[0] >= 1, "row_max: expected at least 1 shard");
}

}  // namespace

Value merge_lse(Emitter& emitter, Value row_max, Value row_sum, std::uint32_t needs) {
  const TensorDesc& from = emitter.desc(row_max);
  TensorDesc lse = make_desc(TERN_F32, {from.shape[1]});
  if (from.dynamic_dim == 1) lse = with_dynamic(lse, 0, from.count_slot);
  return CallBuilder(TERN_OP_MERGE_LSE, needs)
      .in(TERN_MERGE_LSE_ROW_MAX, row_max)
      .in(TERN_MERGE_LSE_ROW_SUM, row_sum)
      .out(TERN_MERGE_LSE_LSE, lse)
      .emit(emitter, TERN_MERGE_LSE_LSE);
}

const OpRules merge_lse_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::merge_lse,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
