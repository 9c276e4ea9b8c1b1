#include "ops/embedding.h"

#include <stdexcept>

#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/check.h"
#include "ops/dequantize.h"
#include "ops/gather_rows.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"
#include "ops/scatter_add_rows.h"

namespace tern::ops {
namespace {

std::string check(Args, AttrBytes) { return {}; }

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  if (!grads.wanted(TERN_EMBEDDING_TABLE)) return grads.take();
  const TensorDesc& table = grads.desc(TERN_EMBEDDING_TABLE);
  if (is_quantised(table)) throw std::logic_error("embedding: a quantised table has no gradient");
  grads.give(TERN_EMBEDDING_TABLE,
             scatter_add_rows(grads.emitter(), grads.of_output(TERN_EMBEDDING_Y), grads.input(TERN_EMBEDDING_IDS),
                              table.shape[0], {.into = grads.absorb(TERN_EMBEDDING_TABLE), .needs = grads.needs()}));
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const Value table = arg(call, TERN_EMBEDDING_TABLE);
  const Value ids = arg(call, TERN_EMBEDDING_IDS);
  const tern_dtype out = call.outputs[TERN_EMBEDDING_Y].dtype;
  if (is_quantised(emitter.desc(table))) {
    return {{}, {}, embedding(emitter, dequantize(emitter, table, out, call.needs), ids, out, call.needs)};
  }
  const Value rows = gather_rows(emitter, table, ids, call.needs);
  if (emitter.desc(rows).dtype == out) return {{}, {}, rows};
  return {{}, {}, cast_copy(emitter, rows, {.out = out, .needs = call.needs})};
}

double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  return arg == TERN_EMBEDDING_TABLE ? bytes_of_rows(call, TERN_EMBEDDING_TABLE, TERN_EMBEDDING_IDS)
                                     : each_argument_once(call, arg, lengths);
}

// -1: none in this shard.
Indices indices(const CallDesc& call) {
  return {.ranges = {{TERN_EMBEDDING_IDS, -1, call[TERN_EMBEDDING_TABLE].shape[0] - 1}}};
}

std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  if (arg != TERN_EMBEDDING_TABLE || dim != 0) return by_name(call, arg, dim);
  return Split{.along = {{arg, dim}}, .sums = {TERN_EMBEDDING_Y}, .indices = {TERN_EMBEDDING_IDS}};
}

}  // namespace

Value embedding(Emitter& emitter, Value table, Value ids, tern_dtype out, std::uint32_t needs) {
  const TensorDesc& rows = emitter.desc(ids);
  const TensorDesc desc = make_desc(out, {rows.shape[0], emitter.desc(table).shape[1]});
  return CallBuilder(TERN_OP_EMBEDDING, needs)
      .in(TERN_EMBEDDING_TABLE, table)
      .in(TERN_EMBEDDING_IDS, ids)
      .out(TERN_EMBEDDING_Y, rows_like(desc, rows))
      .emit(emitter, TERN_EMBEDDING_Y);
}

const OpRules embedding_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::embedding,
    .work = {no_products, bytes},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = split,
    .indices = indices,
    .needed_by = kEveryCommand,
};

}  // namespace tern::ops
