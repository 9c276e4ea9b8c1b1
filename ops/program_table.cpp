// The rows of what a program does itself, beside those of devices (ops/table.cpp).
#include <array>

#include "ops/program_ops.h"

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

}  // namespace

std::span<const OpSpec> program_op_table() { return kTable; }

}  // namespace tern::ops
