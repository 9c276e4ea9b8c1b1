// The forward of attention over tiles of query rows (Dao et al., arXiv:2205.14135). attention.cpp and
// attention_paged.cpp say where the keys and values of each sequence lie.
#pragma once

#include <string>

#include "backends/cpu/attention_tile.h"

namespace tern::cpu {

// One thread's memory, in floats.
struct ForwardSpace {
  std::int64_t rows, value_ld;
  std::int64_t slot;  // of one block's sums, behind what the threads have; 0: tiles are never split
  std::int64_t q, k, v, p, scores, block_out, out, stats, gathered, scratch, total;
};

// Inputs and outputs of one launch.
struct Forward {
  const PanelFormat format;
  const RowKernels& rows;
  const Geometry geometry;
  const ForwardSpace space;
  Kept<Sequence> sequences;
  Kept<HeadRows> keys, values;  // by sequence
  HeadRows queries;
  const TensorView& sinks;
  const TensorView& out;
  const TensorView& lse;
  float* workspace;
  bool row_invariant;  // asked for: every row takes the panels' order of sums
};

// The numbers of those arguments that do not stand in the same place in both ops: q, k and v do.
struct ForwardPlaces {
  int sinks, mask, out, lse;
  int kv_rank;
};
[[nodiscard]] bool forward_supports(const PlanDesc& desc, const ForwardPlaces& places, std::string& reason);
[[nodiscard]] std::uint64_t forward_workspace(const PlanDesc& desc);

// `most_rows`: of a sequence under one kv head. What the plan said, not what a launch brings: so few that they fit one
// panel are decoding, whose tiles may be split by blocks of keys.
[[nodiscard]] ForwardSpace forward_space(const PanelFormat& format, std::int64_t head_dim, std::int64_t value_dim,
                                         std::int64_t most_rows);

// Without sequences.
template <typename Attrs>
[[nodiscard]] Forward make_forward(const KernelArgs& args, const ForwardPlaces& places) {
  const TensorView &q = args[0], &k = args[1], &v = args[2];
  const PanelFormat format = panel_format(args.target, attention_compute(q.dtype(), k.dtype(), v.dtype()));
  const std::int64_t value_dim = v.dim(places.kv_rank - 1), kv_heads = k.dim(places.kv_rank - 2);
  const auto& attrs = args.attr<Attrs>();
  return {format,
          row_kernels(args.target),
          make_geometry(attrs, q, kv_heads, value_dim, args[places.mask]),
          forward_space(format, q.dim(2), value_dim, attrs.max_seqlen_q * (q.dim(1) / kv_heads)),
          {},
          {},
          {},
          head_rows(q, 0),
          args[places.sinks],
          args[places.out],
          args[places.lse],
          reinterpret_cast<float*>(args.workspace),
          (args.needs & TERN_NEED_ROW_INVARIANT) != 0};
}

// Rows that no sequence of `cu_q` holds become empty ones.
void run_forward(const Forward& f, const Kept<std::int32_t>& cu_q, ThreadPool& pool);

}  // namespace tern::cpu
