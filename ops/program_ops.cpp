#include "ops/program_ops.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/strings.h"
#include "ops/build.h"
#include "ops/check.h"

namespace tern::ops {
namespace {

using enum Role;
using enum Dtypes;
constexpr auto I = AttrType::i32;

constexpr ArgSpec kFresh[] = {{"x", input, "[...]", any}, {"y", output, "[...]", as_x}};
constexpr ArgSpec kReduced[] = {{"x", input, "[...]", floating}, {"y", output, "[...]", as_x}};
constexpr ArgSpec kGathered[] = {{"x", input, "[n, ...]", any}, {"y", output, "[ranks n, ...]", as_x}};
constexpr ArgSpec kScattered[] = {{"x", input, "[ranks n, ...]", floating}, {"y", output, "[n, ...]", as_x}};
constexpr ArgSpec kReplaced[] = {{"x", input, "[...]", any, kOptional}, {"y", state, "[...]", any}};
constexpr ArgSpec kSent[] = {{"x", input, "[...]", any}, {"y", output, "[...]", any, kOptional}};
constexpr ArgSpec kReceived[] = {{"x", input, "[...]", any, kOptional}, {"y", output, "[...]", any}};
constexpr ArgSpec kCounted[] = {{"x", input, "[1]", i32}, {"y", output, "[1]", i32, kOptional}};

constexpr AttrSpec kGroup[] = {{"group", I, "of ProgramOptions::groups"},
                               {"ranks", I, "of the group"},
                               {"reduce", I, "TERN_REDUCE_*"},
                               {"peer", I, "broadcast: the root; send, receive: the other rank"}};
constexpr AttrSpec kSlot[] = {{"slot", I, "of tern_host_args.counts"}};

constexpr std::array<OpSpec, kProgramOpLimit - kFirstProgramOp> kTable = {{
    {kAllReduce, "all_reduce", "y = the reduction of every rank's x", kReduced, kGroup},
    {kAllGather, "all_gather", "y = every rank's x, by rank", kGathered, kGroup},
    {kReduceScatter, "reduce_scatter", "y = this rank's part of the reduction of every rank's x", kScattered, kGroup},
    {kAllToAll, "all_to_all", "y[r] = rank r's x[this rank]", kFresh, kGroup},
    {kBroadcast, "broadcast", "y = that of the root", kReplaced, kGroup},
    {kSend, "send", "x goes to the peer", kSent, kGroup},
    {kReceive, "receive", "y is what the peer sends", kReceived, kGroup},
    {kCopyToDevice, "copy_to_device", "y = x, from the host's memory", kFresh, {}},
    {kCopyToHost, "copy_to_host", "y = x, in the host's memory", kReplaced, {}},
    {kSetCount, "set_count", "counts[slot] = x[0] from here on", kCounted, kSlot},
}};

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

constexpr OpRules rules_with(std::string (*check)(std::span<const TensorDesc>, AttrBytes)) {
  return {
      .check = check,
      .backward = nullptr,
      .decompose = nullptr,
      .reference = nullptr,
      .work = {no_products, each_argument_once},
      .uses = no_weights,
      .row_dim = no_rows,
      .indices = no_indices,
      .needed_by = kNoCommand,
  };
}

const OpRules kPlain = rules_with(check);
const OpRules kGatherRules = rules_with(check_gather);
const OpRules kScatterRules = rules_with(check_scatter);
const OpRules kAllToAllRules = rules_with(check_all_to_all);
const OpRules kCopyRules = rules_with(check_copy);
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

std::span<const OpSpec> program_op_table() { return kTable; }

const OpRules& program_op_rules(std::uint32_t op) {
  if (op >= kProgramOpLimit) throw std::out_of_range(cat("no op has the id ", op));
  switch (op) {
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
