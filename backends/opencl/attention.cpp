// attention and attention_paged: one source, whose keys lie end to end or in blocks.
#include "backends/opencl/attention.h"

#include <algorithm>

namespace tern::opencl {
namespace {

// Where the arguments of the two ops stand.
struct Places {
  AttentionArgs args;
  int table;  // -1: none
  int bounds_q;
  int bounds_k;
  int out;
  int lse;
};
constexpr Places kEndToEnd = {
    {TERN_ATTENTION_Q, TERN_ATTENTION_K, TERN_ATTENTION_V, TERN_ATTENTION_MASK, TERN_ATTENTION_SINKS, 3},
    -1,
    TERN_ATTENTION_CU_SEQLENS_Q,
    TERN_ATTENTION_CU_SEQLENS_K,
    TERN_ATTENTION_OUT,
    TERN_ATTENTION_LSE};
constexpr Places kPaged = {
    {TERN_ATTENTION_PAGED_Q, TERN_ATTENTION_PAGED_K_CACHE, TERN_ATTENTION_PAGED_V_CACHE, TERN_ATTENTION_PAGED_MASK,
     TERN_ATTENTION_PAGED_SINKS, 4, TERN_ATTENTION_PAGED_K_SCALE, TERN_ATTENTION_PAGED_V_SCALE},
    TERN_ATTENTION_PAGED_BLOCK_TABLE,
    TERN_ATTENTION_PAGED_CU_SEQLENS_Q,
    TERN_ATTENTION_PAGED_KV_LENS,
    TERN_ATTENTION_PAGED_OUT,
    TERN_ATTENTION_PAGED_LSE};

// What the choice of tiles depends on: nothing of it changes from launch to launch.
struct Problem {
  std::int64_t q_rows, heads, kv_heads, head_dim, value_dim, max_seqlen_q, max_seqlen_k;
  bool row_invariant;
};
template <typename Attrs>
Problem problem_of(const tern_op_desc& op, const Places& at) {
  const auto& attrs = *static_cast<const Attrs*>(op.attrs);
  const auto &q = op.args[at.args.q], &k = op.args[at.args.k], &v = op.args[at.args.v];
  const int heads = at.args.kv_rank - 2;
  return {q.shape[0],         q.shape[1],         k.shape[heads],     q.shape[2],
          v.shape[heads + 1], attrs.max_seqlen_q, attrs.max_seqlen_k, (op.needs & TERN_NEED_ROW_INVARIANT) != 0};
}

// Local memory of a work-group.
std::uint64_t local_bytes(const AttentionTile& tile, std::int64_t head_dim, std::int64_t value_dim) {
  const std::int64_t sizes = round_up(head_dim, tile.width) + round_up(value_dim, tile.width);
  const std::int64_t floats = tile.entries * (sizes + tile.keys + 3) + (tile.direct ? 0 : tile.keys * sizes);
  return static_cast<std::uint64_t>(floats) * sizeof(float);
}

AttentionTile tile_of(const Facts& device, const Problem& p) {
  const std::int64_t entries = p.max_seqlen_q * (p.heads / std::max<std::int64_t>(p.kv_heads, 1));
  AttentionTile tile;
  if (!device.cpu) tile = {.width = 4, .group = 64, .entries = 16, .keys = 16, .rows = 2};
  if (entries > 0 && entries <= 8) {
    tile.direct = true;
    tile.rows = std::min<std::int64_t>(entries, 4);
    tile.entries = round_up(entries, tile.rows);
    tile.keys = 64;
  }
  while (tile.entries > 2 * tile.rows && local_bytes(tile, p.head_dim, p.value_dim) > device.local_memory) {
    tile.entries /= 2;
  }
  while (tile.keys > tile.width && local_bytes(tile, p.head_dim, p.value_dim) > device.local_memory) tile.keys /= 2;
  return tile;
}

// Parts of the keys of a decoding row: where rows are few, work-groups share one. With row invariance the number of
// rows may not decide.
struct Parts {
  std::int64_t count = 1;
  std::int64_t keys = 0;
};
Parts parts_of_keys(const Facts& device, const Problem& p, const AttentionTile& tile) {
  constexpr std::int64_t kLeastKeys = 256, kMostParts = 32;
  const std::int64_t keys = std::max<std::int64_t>(p.max_seqlen_k, 1);
  const bool few = p.row_invariant || p.q_rows * p.kv_heads < 4 * std::int64_t{device.compute_units};
  if (!tile.direct || !few || keys <= kLeastKeys) return {1, round_up(keys, tile.keys)};
  const std::int64_t each = round_up(std::max(kLeastKeys, parts_of(keys, kMostParts)), tile.keys);
  return {parts_of(keys, each), each};
}

// How many parts this launch's keys reach into: those of the host's copy of the lengths, where it gave one. A row's
// parts are the same however many others have, and so are its bits.
std::int64_t parts_reached(const Launch& launch, const Places& at, const Parts& parts) {
  if (parts.count == 1 || launch.arrays().size() < 2) return parts.count;
  const tern_host_array& lengths = launch.arrays()[1];
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < lengths.count; ++i) {
    const std::int64_t begin = at.table >= 0 || i == 0 ? 0 : lengths.data[i - 1];
    longest = std::max<std::int64_t>(longest, lengths.data[i] - begin);
  }
  return std::clamp<std::int64_t>(parts_of(longest, parts.keys), 1, parts.count);
}

template <typename Attrs>
bool supports(const PlanDesc& desc, const Places& at, std::string& reason) {
  const auto &q = desc.arg(at.args.q), &v = desc.arg(at.args.v);
  Check check(desc, reason);
  check_attention(check, desc, at.args);
  check.floats({at.out}).rank(at.out, 3).dim(at.out, 0, q.shape[0]).dim(at.out, 1, q.shape[1]);
  check.dim(at.out, 2, v.shape[at.args.kv_rank - 1]);
  check.dtype(at.lse, TERN_F32).rank(at.lse, 2).dim(at.lse, 0, q.shape[0]).dim(at.lse, 1, q.shape[1]);
  if (!check.ok()) return false;
  const Problem problem = problem_of<Attrs>(desc.op, at);
  return check
      .that(local_bytes(tile_of(desc.device, problem), problem.head_dim, problem.value_dim) <= desc.device.local_memory,
            "a head is too large for the local memory of this device")
      .ok();
}

template <typename Attrs>
std::uint64_t workspace(const PlanDesc& desc, const Places& at) {
  const Problem p = problem_of<Attrs>(desc.op, at);
  const Parts parts = parts_of_keys(desc.device, p, tile_of(desc.device, p));
  const std::int64_t floats = parts.count == 1 ? 0 : p.q_rows * p.heads * parts.count * (2 + p.value_dim);
  return static_cast<std::uint64_t>(floats) * sizeof(float);
}

template <typename Attrs>
std::vector<Function> functions(const PlanDesc& desc, const Places& at) {
  const Problem p = problem_of<Attrs>(desc.op, at);
  const AttentionTile tile = tile_of(desc.device, p);
  Defines defines;
  tile_defines(defines, tile)
      .set("PAGED", at.table >= 0 ? 1 : 0)
      .set("CODES", is_code(desc.arg(at.args.k).dtype) ? 1 : 0)
      .tensor("q", desc, at.args.q)
      .tensor("k", desc, at.args.k)
      .tensor("v", desc, at.args.v)
      .tensor("out", desc, at.out);
  std::vector<Function> list = {{"attention", "attention", defines.text()}};
  if (parts_of_keys(desc.device, p, tile).count > 1) list.push_back({"attention", "attention_merge", defines.text()});
  return list;
}

template <typename Attrs>
void run(const Launch& launch, const Places& at) {
  const Problem problem = problem_of<Attrs>(launch.planned(), at);
  const AttentionTile tile = tile_of(launch.device(), problem);
  Parts parts = parts_of_keys(launch.device(), problem, tile);
  parts.count = parts_reached(launch, at, parts);
  const TensorView &q = launch[at.args.q], &bounds = launch[at.bounds_q], &bounds_k = launch[at.bounds_k];
  const TensorView absent;
  const TensorView& table = at.table >= 0 ? launch[at.table] : absent;
  AttentionSizes sizes{};
  take_attrs(launch.attr<Attrs>(), sizes);
  sizes.heads = problem.heads;
  sizes.kv_heads = problem.kv_heads;
  sizes.head_dim = problem.head_dim;
  sizes.value_dim = problem.value_dim;
  sizes.sequences = std::max<std::int64_t>(bounds.dim(0) - 1, 0);
  sizes.sequences = std::min(sizes.sequences, bounds_k.dim(0) - (table.present() ? 0 : 1));
  sizes.sequences = std::max<std::int64_t>(sizes.sequences, 0);
  sizes.q_rows = q.dim(0);
  take_strides(q, sizes.q);
  take_strides(launch[at.args.k], sizes.k);
  take_strides(launch[at.args.v], sizes.v);
  const bool codes = is_code(launch.planned().args[at.args.k].dtype);
  const TensorView &k_scale = codes ? launch[at.args.k_scale] : absent,
                   &v_scale = codes ? launch[at.args.v_scale] : absent;
  take_strides(k_scale, sizes.k_scale);
  take_strides(v_scale, sizes.v_scale);
  sizes.sinks = stride_of(launch[at.args.sinks]);
  take_strides(launch[at.args.mask], sizes.mask);
  take_strides(launch[at.out], sizes.out);
  take_strides(launch[at.lse], sizes.lse);
  sizes.block_size = table.present() ? launch[at.args.k].dim(1) : 1;
  sizes.max_blocks = table.present() ? table.dim(1) : 0;
  sizes.has_sinks = launch[at.args.sinks].present() ? 1 : 0;
  sizes.has_mask = launch[at.args.mask].present() ? 1 : 0;
  sizes.has_lse = launch[at.lse].present() ? 1 : 0;
  take_pitches(tile, sizes);
  sizes.parts = parts.count;
  sizes.part_keys = parts.keys;
  const Place partial = parts.count > 1 ? launch.workspace() : Place{};
  const std::int64_t tiles =
      most_tiles(sizes.q_rows, sizes.heads / sizes.kv_heads, tile.entries, sizes.q_rows == 0 ? 0 : sizes.sequences);
  if (sizes.q_rows == 0) return;
  Call call = launch.call(0);
  call.arg(q).arg(launch[at.args.k]).arg(launch[at.args.v]).arg(table).arg(bounds).arg(bounds_k);
  call.arg(launch[at.args.sinks]).arg(launch[at.args.mask]).arg(launch[at.out]).arg(launch[at.lse]);
  call.arg(k_scale).arg(v_scale).arg(partial);
  call.local(local_bytes(tile, problem.head_dim, problem.value_dim));
  call.arg(sizes).run({tiles * tile.group, sizes.kv_heads, parts.count}, {tile.group, 1, 1});
  if (parts.count > 1) {
    Call merge = launch.call(1);
    merge.arg(partial).arg(launch[at.args.sinks]).arg(launch[at.out]).arg(launch[at.lse]).arg(sizes);
    merge.run(sizes.q_rows * sizes.heads, plain_group(launch.device()));
  }
}

bool supports_end_to_end(const PlanDesc& desc, std::string& reason) {
  return supports<tern_attention_attrs>(desc, kEndToEnd, reason);
}
std::uint64_t workspace_end_to_end(const PlanDesc& desc) { return workspace<tern_attention_attrs>(desc, kEndToEnd); }
std::vector<Function> functions_end_to_end(const PlanDesc& desc) {
  return functions<tern_attention_attrs>(desc, kEndToEnd);
}
void run_end_to_end(const Launch& launch) { run<tern_attention_attrs>(launch, kEndToEnd); }

bool supports_paged(const PlanDesc& desc, std::string& reason) {
  return supports<tern_attention_paged_attrs>(desc, kPaged, reason);
}
std::uint64_t workspace_paged(const PlanDesc& desc) { return workspace<tern_attention_paged_attrs>(desc, kPaged); }
std::vector<Function> functions_paged(const PlanDesc& desc) {
  return functions<tern_attention_paged_attrs>(desc, kPaged);
}
void run_paged(const Launch& launch) { run<tern_attention_paged_attrs>(launch, kPaged); }

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ATTENTION, "flash", supports_end_to_end, workspace_end_to_end, functions_end_to_end, run_end_to_end},
    {TERN_OP_ATTENTION_PAGED, "flash", supports_paged, workspace_paged, functions_paged, run_paged}};

}  // namespace

KernelList attention_kernels() { return kKernels; }

}  // namespace tern::opencl
