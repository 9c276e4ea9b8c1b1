#include "ops/program_ops.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"
#include "ops/build.h"
#include "ops/check.h"

namespace tern::ops {
namespace {

std::string check_contiguous(std::span<const TensorDesc> args) {
  for (const TensorDesc& arg : args) {
    if (is_present(arg) && (is_quantised(arg) || !is_contiguous(arg))) {
      return cat("expected contiguous elements, found ", to_string(arg));
    }
  }
  return {};
}

// `whole` holds `ranks` times the first dimension of `part`.
std::string check_parts(const TensorDesc& part, const TensorDesc& whole, std::int32_t ranks) {
  const bool fits = part.rank > 0 && part.rank == whole.rank && whole.shape[0] == part.shape[0] * ranks &&
                    std::equal(part.shape + 1, part.shape + part.rank, whole.shape + 1);
  return fits ? "" : cat("expected ", ranks, " times ", to_string(part), ", found ", to_string(whole));
}

std::string check(std::span<const TensorDesc> args, AttrBytes) { return check_contiguous(args); }

std::string check_copy(std::span<const TensorDesc> args, AttrBytes) {
  if (!is_present(args[kProgramX])) return "x is absent";
  if (!same_shape(args[kProgramX], args[kProgramY]) || args[kProgramX].dtype != args[kProgramY].dtype) {
    return cat("expected ", to_string(args[kProgramX]), ", found ", to_string(args[kProgramY]));
  }
  return check_contiguous(args);
}

std::string check_gather(std::span<const TensorDesc> args, AttrBytes attrs) {
  const std::string parts = check_parts(args[kProgramX], args[kProgramY], unpack_attrs<CollectiveAttrs>(attrs).ranks);
  return parts.empty() ? check_contiguous(args) : parts;
}

std::string check_scatter(std::span<const TensorDesc> args, AttrBytes attrs) {
  const std::string parts = check_parts(args[kProgramY], args[kProgramX], unpack_attrs<CollectiveAttrs>(attrs).ranks);
  return parts.empty() ? check_contiguous(args) : parts;
}

std::string check_all_to_all(std::span<const TensorDesc> args, AttrBytes attrs) {
  const std::int32_t ranks = unpack_attrs<CollectiveAttrs>(attrs).ranks;
  if (args[kProgramX].rank == 0 || args[kProgramX].shape[0] != ranks) {
    return cat("expected a part for each of ", ranks, " ranks, found ", to_string(args[kProgramX]));
  }
  return check_contiguous(args);
}

std::string check_slot(std::span<const TensorDesc> args, AttrBytes attrs) {
  const std::int32_t slot = unpack_attrs<SetCountAttrs>(attrs).slot;
  if (slot < 0 || slot >= TERN_MAX_COUNTS) return cat("there is no slot ", slot);
  return check_contiguous(args);
}

// What is contiguous stays so where the first dimension is cut.
std::optional<Split> split_first(const CallDesc& call, int arg, int dim) {
  return dim == 0 ? by_name(call, arg, dim) : std::nullopt;
}

using SplitRule = std::optional<Split> (*)(const CallDesc& call, int arg, int dim);
constexpr OpRules rules_with(std::string (*check)(std::span<const TensorDesc>, AttrBytes), SplitRule split = no_split) {
  return {
      .check = check,
      .backward = nullptr,
      .decompose = nullptr,
      .reference = nullptr,
      .work = {no_products, each_argument_once},
      .uses = no_weights,
      .row_dim = no_rows,
      .split = split,
      .indices = no_indices,
      .needed_by = kNoCommand,
  };
}

const OpRules kPlain = rules_with(check);
const OpRules kElementwise = rules_with(check, split_first);
const OpRules kGatherRules = rules_with(check_gather);
const OpRules kScatterRules = rules_with(check_scatter);
const OpRules kAllToAllRules = rules_with(check_all_to_all);
const OpRules kCopyRules = rules_with(check_copy, split_first);
const OpRules kSlotRules = rules_with(check_slot);

CallBuilder collective(std::uint32_t op, Group group, std::int32_t reduce, std::int32_t peer) {
  return CallBuilder(op).attrs(CollectiveAttrs{group.index, group.ranks, reduce, peer});
}

TensorDesc with_rows(const TensorDesc& x, std::int64_t rows) {
  if (x.rank == 0) throw std::logic_error("a collective of a tensor without dimensions");
  std::vector<std::int64_t> shape(x.shape, x.shape + x.rank);
  shape[0] = rows;
  return make_desc(x.dtype, shape);
}

}  // namespace

Value all_reduce(Emitter& emitter, Value x, Group group, std::int32_t reduce) {
  const TensorDesc desc = emitter.desc(x);
  return collective(kAllReduce, group, reduce, 0)
      .in(kProgramX, x)
      .out(kProgramY, like(desc, desc.dtype))
      .emit(emitter, kProgramY);
}

Value all_gather(Emitter& emitter, Value x, Group group) {
  const TensorDesc desc = emitter.desc(x);
  return collective(kAllGather, group, TERN_REDUCE_SUM, 0)
      .in(kProgramX, x)
      .out(kProgramY, with_rows(desc, desc.shape[0] * group.ranks))
      .emit(emitter, kProgramY);
}

Value reduce_scatter(Emitter& emitter, Value x, Group group, std::int32_t reduce) {
  const TensorDesc desc = emitter.desc(x);
  return collective(kReduceScatter, group, reduce, 0)
      .in(kProgramX, x)
      .out(kProgramY, with_rows(desc, desc.shape[0] / group.ranks))
      .emit(emitter, kProgramY);
}

Value all_to_all(Emitter& emitter, Value x, Group group) {
  const TensorDesc desc = emitter.desc(x);
  return collective(kAllToAll, group, TERN_REDUCE_SUM, 0)
      .in(kProgramX, x)
      .out(kProgramY, like(desc, desc.dtype))
      .emit(emitter, kProgramY);
}

Value broadcast(Emitter& emitter, Value data, Group group, std::int32_t root) {
  return collective(kBroadcast, group, TERN_REDUCE_SUM, root).state(emitter, kProgramY, data).emit(emitter, kProgramY);
}

void send(Emitter& emitter, Value x, Group group, std::int32_t to) {
  (void)collective(kSend, group, TERN_REDUCE_SUM, to).in(kProgramX, x).emit(emitter);
}

Value receive(Emitter& emitter, const TensorDesc& desc, Group group, std::int32_t from) {
  return collective(kReceive, group, TERN_REDUCE_SUM, from).out(kProgramY, desc).emit(emitter, kProgramY);
}

Value copy_to_device(Emitter& emitter, Value host) {
  const TensorDesc desc = emitter.desc(host);
  return CallBuilder(kCopyToDevice).in(kProgramX, host).out(kProgramY, like(desc, desc.dtype)).emit(emitter, kProgramY);
}

Value copy_to_host(Emitter& emitter, Value x, Value host) {
  return CallBuilder(kCopyToHost).in(kProgramX, x).state(emitter, kProgramY, host).emit(emitter, kProgramY);
}

void set_count(Emitter& emitter, Value x, std::int32_t slot) {
  (void)CallBuilder(kSetCount).attrs(SetCountAttrs{slot}).in(kProgramX, x).emit(emitter);
}

const OpRules& program_op_rules(std::uint32_t op) {
  if (op >= kProgramOpLimit) throw std::out_of_range(cat("no op has the id ", op));
  switch (op) {
    case kAllReduce:
    case kBroadcast:
      return kElementwise;
    case kAllGather:
      return kGatherRules;
    case kReduceScatter:
      return kScatterRules;
    case kAllToAll:
      return kAllToAllRules;
    case kCopyToDevice:
    case kCopyToHost:
      return kCopyRules;
    case kSetCount:
      return kSlotRules;
    default:
      return kPlain;
  }
}

}  // namespace tern::ops
