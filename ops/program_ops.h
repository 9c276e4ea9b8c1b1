// Ops that no kernel runs: what a program does itself between kernels. Collectives of a group of ranks, copies between
// host and device, and counts that are known only once something has been computed. They stand in graphs beside the
// ops of devices, have rows and checks as those do, and are no part of the C interface.
//
//   all_reduce      y = the reduction of every rank's x.
//   all_gather      y [ranks n, ...] = every rank's x [n, ...], by rank.
//   reduce_scatter  y [n, ...] = this rank's part of the reduction of every rank's x [ranks n, ...].
//   all_to_all      y [ranks, n, ...]: y[r] = rank r's x[this rank].
//   broadcast       data = that of the root.
//   send, receive   x of one rank becomes y of the other.
//   copy_to_device  y = x, which lies in the host's memory (Graph::host_resource).
//   copy_to_host    y = x; y lies in the host's memory.
//   set_count       from here on, the count of a slot is what x [1] holds.
//
// Dtypes: any; of reductions float. Everything is contiguous. The whole capacity of a dynamic dimension travels: ranks
// agree on it before they run. All ranks make the same calls of a group in the same order.
// Backward: none. What the gradient of a collective is depends on what the ranks share, which a pass over the graph
// knows and an op does not.
#pragma once

#include "ops/emit.h"
#include "ops/rules.h"

namespace tern::ops {

enum ProgramOp : std::uint32_t {
  kFirstProgramOp = 1 << 16,  // above every op of the C interface
  kAllReduce = kFirstProgramOp,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kSend,
  kReceive,
  kCopyToDevice,
  kCopyToHost,
  kSetCount,
  kProgramOpLimit,
};
[[nodiscard]] constexpr bool is_program_op(std::uint32_t op) { return op >= kFirstProgramOp; }
[[nodiscard]] constexpr bool is_collective(std::uint32_t op) { return op >= kAllReduce && op <= kReceive; }
// Whether it matters though nothing reads a result of it.
[[nodiscard]] constexpr bool has_effect(std::uint32_t op) { return op == kSend || op == kSetCount; }

// Arguments of all of them: what is read, and what is written (or the state that is).
enum ProgramArg { kProgramX = 0, kProgramY = 1 };

struct CollectiveAttrs {
  std::int32_t group;   // of ProgramOptions::groups
  std::int32_t ranks;   // of the group
  std::int32_t reduce;  // TERN_REDUCE_*
  std::int32_t peer;    // broadcast: the root; send, receive: the other rank
};
struct SetCountAttrs {
  std::int32_t slot;  // of tern_host_args.counts
};

struct Group {
  std::int32_t index = 0;
  std::int32_t ranks = 1;
};
[[nodiscard]] Value all_reduce(Emitter& emitter, Value x, Group group, std::int32_t reduce = TERN_REDUCE_SUM);
[[nodiscard]] Value all_gather(Emitter& emitter, Value x, Group group);
[[nodiscard]] Value reduce_scatter(Emitter& emitter, Value x, Group group, std::int32_t reduce = TERN_REDUCE_SUM);
[[nodiscard]] Value all_to_all(Emitter& emitter, Value x, Group group);
[[nodiscard]] Value broadcast(Emitter& emitter, Value data, Group group, std::int32_t root);
void send(Emitter& emitter, Value x, Group group, std::int32_t to);
[[nodiscard]] Value receive(Emitter& emitter, const TensorDesc& desc, Group group, std::int32_t from);
[[nodiscard]] Value copy_to_device(Emitter& emitter, Value host);
// Gives the next version of `host`.
[[nodiscard]] Value copy_to_host(Emitter& emitter, Value x, Value host);
void set_count(Emitter& emitter, Value x, std::int32_t slot);

[[nodiscard]] std::span<const OpSpec> program_op_table();
[[nodiscard]] const OpRules& program_op_rules(std::uint32_t op);

}  // namespace tern::ops
