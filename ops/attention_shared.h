// What attention, its backward and attention_paged share: check and facts. Their attributes are the same.
#pragma once

#include "ops/check.h"
#include "ops/facts.h"

namespace tern::ops {

// `mask` may be absent.
[[nodiscard]] std::string check_attention(const tern_attention_attrs& attrs, std::int64_t heads, std::int64_t kv_heads,
                                          const TensorDesc& mask);

// Pairs of a query row and a key that it sees, of all sequences. Keys of sequence s: lengths[1] is cu_seqlens_k or, of
// paged keys, kv_lens. What a mask hides is counted: it lies on the device.
enum class Keys { cumulative, paged };
[[nodiscard]] double attended_pairs(const CallDesc& call, HostArrays lengths, Keys keys);

// Rows of queries: the dimension that the contract calls "q_rows".
[[nodiscard]] int query_rows(const CallDesc& call, int arg);

// Sequences of cu_seqlens_q over q, and of cu_seqlens_k over k.
struct SequenceArgs {
  int cu_seqlens_q;
  int q;
  int cu_seqlens_k;
  int k;
};
[[nodiscard]] Indices sequence_indices(const CallDesc& call, const SequenceArgs& args);

// attention or attention_paged with sinks -> without them, then sink_scale; empty where there are none. The numbers are
// those of the arguments.
struct SinkArgs {
  int sinks;
  int out;
  int lse;
};
[[nodiscard]] std::vector<Value> decompose_sinks(Emitter& emitter, const OpCall& call, const SinkArgs& args);

}  // namespace tern::ops
