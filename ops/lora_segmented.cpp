#include "ops/lora_segmented.h"

#include <algorithm>

#include "ops/build.h"
#include "ops/check.h"
#include "ops/grouped_matmul.h"
#include "ops/moe_combine.h"
#include "ops/moe_permute.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes) {
  const TensorDesc& a = args[TERN_LORA_SEGMENTED_A];
  return require(a.shape[0] >= 1, cat("a: expected 1 slot at least, found ", to_string(a)));
}

// Rows of no adapter are those of one more expert, which the products' offsets leave out.
std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const Value a = arg(call, TERN_LORA_SEGMENTED_A);
  const Value slots = arg(call, TERN_LORA_SEGMENTED_SLOTS);
  const std::int64_t num_slots = emitter.desc(a).shape[0];
  TensorDesc column = emitter.desc(slots);
  column.rank = 2;
  column.shape[1] = 1;
  column.strides[1] = 1;
  const MoePermute rows =
      moe_permute(emitter, arg(call, TERN_LORA_SEGMENTED_X), emitter.view(slots, column, 0), num_slots + 1, call.needs);
  const Value offsets = emitter.view(rows.offsets, make_desc(TERN_I32, {num_slots + 1}), 0);
  const Value low = grouped_matmul(emitter, rows.y, a, offsets, {.needs = call.needs});  // [rows, 1, rank] f32
  const Value high = grouped_matmul(emitter, low, arg(call, TERN_LORA_SEGMENTED_B), offsets, {.needs = call.needs});
  std::vector<Value> out(call.inputs.size());
  out[TERN_LORA_SEGMENTED_Y] = moe_combine(emitter, high, rows.places,
                                           {.out = call.outputs[TERN_LORA_SEGMENTED_Y].dtype,
                                            .into = arg(call, TERN_LORA_SEGMENTED_Y),
                                            .needs = call.needs});
  return out;
}

double flops(const CallDesc& call, HostArrays) {
  const TensorDesc& x = call[TERN_LORA_SEGMENTED_X];
  const TensorDesc& b = call[TERN_LORA_SEGMENTED_B];
  return 2.0 * static_cast<double>(x.shape[0]) * static_cast<double>(b.shape[2]) *
         static_cast<double>(x.shape[1] + b.shape[1]);
}

// Of as many slots as there are rows at most.
double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  const double all = each_argument_once(call, arg, lengths);
  if (arg != TERN_LORA_SEGMENTED_A && arg != TERN_LORA_SEGMENTED_B) return all;
  return all * std::min(1.0, static_cast<double>(call[TERN_LORA_SEGMENTED_X].shape[0]) /
                                 static_cast<double>(call[TERN_LORA_SEGMENTED_A].shape[0]));
}

// Rows and outputs stand alone; what is cut along the inputs or the rank is summed.
std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  const std::string_view name = op_spec(call.op).args[static_cast<std::size_t>(arg)].shape[dim].name;
  if (name == "num_slots") return std::nullopt;
  std::optional<Split> cut = by_name(call, arg, dim);
  if (name == "in" || name == "rank") cut->sums = {TERN_LORA_SEGMENTED_Y};
  return cut;
}

Indices indices(const CallDesc& call) {
  return {.ranges = {{TERN_LORA_SEGMENTED_SLOTS, 0, call[TERN_LORA_SEGMENTED_A].shape[0]}}};
}

}  // namespace

Value lora_segmented(Emitter& emitter, Value x, Value a, Value b, Value slots, const LoraSegmentedOptions& options) {
  const TensorDesc& rows = emitter.desc(x);
  const TensorDesc y = rows_like(make_desc(options.out, {rows.shape[0], emitter.desc(b).shape[1]}), rows);
  return CallBuilder(TERN_OP_LORA_SEGMENTED, options.needs)
      .in(TERN_LORA_SEGMENTED_X, x)
      .in(TERN_LORA_SEGMENTED_A, a)
      .in(TERN_LORA_SEGMENTED_B, b)
      .in(TERN_LORA_SEGMENTED_SLOTS, slots)
      .out(emitter, TERN_LORA_SEGMENTED_Y, y, options.into)
      .emit(emitter, TERN_LORA_SEGMENTED_Y);
}

const OpRules lora_segmented_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = decompose,
    .reference = ref::lora_segmented,
    .work = {flops, bytes},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = split,
    .indices = indices,
    .needed_by = kNoCommand,
};

}  // namespace tern::ops
