#include "ops/shard_index.h"

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_shard_index_attrs>(bytes);
  return first_problem(require(attrs.first >= 0, "first: expected no negative number"),
                       require(attrs.count >= 0, "count: expected no negative number"));
}

}  // namespace

Value shard_index(Emitter& emitter, Value ids, std::int64_t first, std::int64_t count, std::uint32_t needs) {
  return CallBuilder(TERN_OP_SHARD_INDEX, needs)
      .attrs(tern_shard_index_attrs{static_cast<std::int32_t>(first), static_cast<std::int32_t>(count)})
      .in(TERN_SHARD_INDEX_IDS, ids)
      .out(TERN_SHARD_INDEX_Y, like(emitter.desc(ids), TERN_I32))
      .emit(emitter, TERN_SHARD_INDEX_Y);
}

const OpRules shard_index_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::shard_index,
    .work = {no_products, each_argument_once},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = by_name,
    .indices = no_indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
