// index_topk_mask and index_topk_mask_paged: one source, whose keys lie end to end or in blocks.
#include <algorithm>

#include "backends/opencl/rows.h"

namespace tern::opencl {
namespace {

// The struct IndexSizes of cl/index_topk_mask.cl.
struct Sizes {
  std::int64_t rows, heads, dim, sequences, topk, mask_keys, groups;
  std::int64_t q[3], weights[2], k[3], mask[2], block_size, max_blocks;
};

// Where the arguments of the two ops stand; q, weights and keys are the first three of both.
constexpr int kQ = TERN_INDEX_TOPK_MASK_Q, kWeights = TERN_INDEX_TOPK_MASK_WEIGHTS, kKeys = TERN_INDEX_TOPK_MASK_K;
struct Places {
  int table;  // -1: none
  int bounds_q;
  int bounds_k;
  int mask;
};
constexpr Places kEndToEnd = {-1, TERN_INDEX_TOPK_MASK_CU_SEQLENS_Q, TERN_INDEX_TOPK_MASK_CU_SEQLENS_K,
                              TERN_INDEX_TOPK_MASK_MASK};
constexpr Places kPaged = {TERN_INDEX_TOPK_MASK_PAGED_BLOCK_TABLE, TERN_INDEX_TOPK_MASK_PAGED_CU_SEQLENS_Q,
                           TERN_INDEX_TOPK_MASK_PAGED_KV_LENS, TERN_INDEX_TOPK_MASK_PAGED_MASK};

// Work-groups, each with memory for the scores of one row, which take the rows in turn.
std::int64_t groups_of(const Facts& device, std::int64_t rows) {
  return std::min<std::int64_t>(rows, std::int64_t{device.compute_units} * (device.cpu ? 4 : 16));
}

bool supports_form(const PlanDesc& desc, int rank, const Places& at, std::string& reason) {
  const auto& q = desc.arg(kQ);
  return Check(desc, reason)
      .floats({kQ, kWeights, kKeys})
      .dtype(at.mask, TERN_BOOL)
      .rank(kQ, 3)
      .rank(kWeights, 2)
      .rank(kKeys, rank)
      .rank(at.mask, 2)
      .dim(kWeights, 0, q.shape[0])
      .dim(kWeights, 1, q.shape[1])
      .dim(kKeys, rank - 1, q.shape[2])
      .dim(at.mask, 0, q.shape[0])
      .ok();
}

std::uint64_t workspace_form(const PlanDesc& desc, const Places& at) {
  return static_cast<std::uint64_t>(groups_of(desc.device, desc.arg(kQ).shape[0]) * desc.arg(at.mask).shape[1]) *
         sizeof(float);
}

std::vector<Function> functions_form(const PlanDesc& desc, const Places& at) {
  const RowTile tile = row_tile(desc.device);
  Defines defines;
  defines.set("W", tile.width)
      .set("GROUP", tile.group)
      .set("PAGED", at.table >= 0 ? 1 : 0)
      .tensor("q", desc, kQ)
      .tensor("weights", desc, kWeights)
      .tensor("k", desc, kKeys);
  return {{"index_topk_mask", "index_topk_mask", defines.text()}};
}

void run_form(const Launch& launch, const Places& at, std::int64_t topk) {
  const TensorView &q = launch[kQ], &k = launch[kKeys], &mask = launch[at.mask];
  const TensorView &bounds_q = launch[at.bounds_q], &bounds_k = launch[at.bounds_k];
  const TensorView absent;
  const TensorView& table = at.table >= 0 ? launch[at.table] : absent;
  const std::int64_t group = row_tile(launch.device()).group;
  Sizes sizes{};
  sizes.rows = q.dim(0);
  sizes.heads = q.dim(1);
  sizes.dim = q.dim(2);
  sizes.sequences = std::min(bounds_q.dim(0) - 1, bounds_k.dim(0) - (table.present() ? 0 : 1));
  sizes.sequences = std::max<std::int64_t>(sizes.sequences, 0);
  sizes.topk = topk;
  sizes.mask_keys = mask.dim(1);
  sizes.groups = groups_of(launch.device(), sizes.rows);
  take_strides(q, sizes.q);
  take_strides(launch[kWeights], sizes.weights);
  sizes.k[0] = k.stride(0);
  sizes.k[1] = k.stride(1);
  sizes.k[2] = k.stride(k.desc.rank - 1);
  take_strides(mask, sizes.mask);
  sizes.block_size = table.present() ? k.dim(1) : 1;
  sizes.max_blocks = table.present() ? table.dim(1) : 0;
  if (sizes.rows == 0 || sizes.mask_keys == 0) return;
  Call call = launch.call(0);
  call.arg(q).arg(launch[kWeights]).arg(k).arg(table).arg(bounds_q).arg(bounds_k).arg(mask).arg(launch.workspace());
  call.arg(sizes).run(sizes.groups * group, group);
}

bool supports(const PlanDesc& desc, std::string& reason) { return supports_form(desc, 2, kEndToEnd, reason); }
std::uint64_t workspace(const PlanDesc& desc) { return workspace_form(desc, kEndToEnd); }
std::vector<Function> functions(const PlanDesc& desc) { return functions_form(desc, kEndToEnd); }
void run(const Launch& launch) { run_form(launch, kEndToEnd, launch.attr<tern_index_topk_mask_attrs>().topk); }

bool supports_paged(const PlanDesc& desc, std::string& reason) { return supports_form(desc, 4, kPaged, reason); }
std::uint64_t workspace_paged(const PlanDesc& desc) { return workspace_form(desc, kPaged); }
std::vector<Function> functions_paged(const PlanDesc& desc) { return functions_form(desc, kPaged); }
void run_paged(const Launch& launch) { run_form(launch, kPaged, launch.attr<tern_index_topk_mask_paged_attrs>().topk); }

constexpr KernelEntry kKernels[] = {
    {TERN_OP_INDEX_TOPK_MASK, "radix", supports, workspace, functions, run},
    {TERN_OP_INDEX_TOPK_MASK_PAGED, "radix", supports_paged, workspace_paged, functions_paged, run_paged}};

}  // namespace

KernelList index_topk_mask_kernels() { return kKernels; }

}  // namespace tern::opencl
