// index_topk_mask and index_topk_mask_paged: one source, whose keys lie end to end or in blocks. Matrix units take q
// and k of one 16-bit dtype; a plain kernel takes all else.
#include <algorithm>

#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

// As in cu/index_topk_mask.cu.
struct Sizes {
  std::int64_t rows, heads, dim, sequences, topk, mask_keys;
  std::int64_t q[3], weights[2], k[3], mask[2], block_size, max_blocks;
};
struct Arguments {
  DeviceTensor q, weights, k, table, bounds_q, bounds_k, mask;
  Place scores;
};

constexpr std::int64_t kThreads = 256;  // as the kernels are bounded
constexpr std::int64_t kMostDim = 128;  // of the matrix kernels
enum Variant : int { kMatrix, kPlain };

// Where the arguments of the two ops are; q, weights and keys are the first three of both.
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

// Blocks, each with memory for the scores of one row, which take the rows in turn.
std::int64_t groups_of(const Facts& device, std::int64_t rows) {
  return std::min<std::int64_t>(rows, std::int64_t{device.multiprocessors} * 4);
}

// Of the row's q and weights: struct SharedQuery of cu/index_topk_mask.cu.
std::int64_t shared_bytes(std::int64_t heads, std::int64_t dim) { return round_up(heads, 16) * ((dim + 8) * 2 + 4); }

bool takes_matrices(const PlanDesc& desc, std::string& reason) {
  const auto &q = desc.arg(kQ), &k = desc.arg(kKeys);
  const auto even = [](std::int64_t stride) { return stride % 2 == 0; };
  const std::int64_t shared = shared_bytes(q.shape[1], q.shape[2]);
  return Check(desc, reason)
      .dtype(kKeys, q.dtype)
      .that(q.dtype == TERN_BF16 || q.dtype == TERN_F16, "q isn't of 16 bits")
      .that(q.shape[2] % 16 == 0 && q.shape[2] <= kMostDim, "index_dim isn't a multiple of 16 up to 128")
      .that(q.strides[2] == 1 && k.strides[k.rank - 1] == 1, "inner strides aren't 1")
      .that(even(q.strides[0]) && even(q.strides[1]) && even(k.strides[0]) && even(k.strides[1]), "strides aren't even")
      .that(static_cast<std::uint64_t>(shared) <= desc.device.shared_memory, "a row doesn't fit shared memory")
      .ok();
}

bool supports_form(const PlanDesc& desc, int rank, const Places& at, std::string& reason) {
  const auto& q = desc.arg(kQ);
  const bool fits = Check(desc, reason)
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
                        .that(desc.arg(at.mask).shape[1] < 1 << 24, "there are more than 2^24 keys")
                        .ok();
  return fits && (desc.variant == kPlain || takes_matrices(desc, reason));
}

std::uint64_t workspace_form(const PlanDesc& desc, const Places& at) {
  return static_cast<std::uint64_t>(groups_of(desc.device, desc.arg(kQ).shape[0]) * desc.arg(at.mask).shape[1]) *
         sizeof(float);
}

Functions functions(const PlanDesc& desc) {
  if (desc.variant == kPlain) return {"index_topk_mask_plain"};
  return {desc.arg(kQ).dtype == TERN_BF16 ? "index_topk_mask_bf16" : "index_topk_mask_f16"};
}

void run_form(const Launch& launch, const Places& at, std::int64_t topk) {
  const TensorView &q = launch[kQ], &k = launch[kKeys], &mask = launch[at.mask];
  const TensorView &bounds_q = launch[at.bounds_q], &bounds_k = launch[at.bounds_k];
  const TensorView absent;
  const TensorView& table = at.table >= 0 ? launch[at.table] : absent;
  Sizes sizes{};
  sizes.rows = q.dim(0);
  sizes.heads = q.dim(1);
  sizes.dim = q.dim(2);
  sizes.sequences = std::min(bounds_q.dim(0) - 1, bounds_k.dim(0) - (table.present() ? 0 : 1));
  sizes.sequences = std::max<std::int64_t>(sizes.sequences, 0);
  sizes.topk = topk;
  sizes.mask_keys = mask.dim(1);
  take_strides(q, sizes.q);
  take_strides(launch[kWeights], sizes.weights);
  sizes.k[0] = k.stride(0);
  sizes.k[1] = k.stride(1);
  sizes.k[2] = k.stride(k.desc.rank - 1);
  take_strides(mask, sizes.mask);
  sizes.block_size = table.present() ? k.dim(1) : 1;
  sizes.max_blocks = table.present() ? table.dim(1) : 0;
  const DeviceTensor no_table;
  const Arguments arguments = {
      q.plane(0),        launch[kWeights].plane(0), k.plane(0),    table.present() ? table.plane(0) : no_table,
      bounds_q.plane(0), bounds_k.plane(0),         mask.plane(0), launch.workspace()};
  Call call = launch.call(0);
  if (launch.variant() == kMatrix) call.shared(static_cast<std::size_t>(shared_bytes(sizes.heads, sizes.dim)));
  call.arg(arguments).arg(sizes).run({groups_of(launch.device(), sizes.rows), 1, 1}, {kThreads, 1, 1});
}

bool supports(const PlanDesc& desc, std::string& reason) { return supports_form(desc, 2, kEndToEnd, reason); }
std::uint64_t workspace(const PlanDesc& desc) { return workspace_form(desc, kEndToEnd); }
void run(const Launch& launch) { run_form(launch, kEndToEnd, launch.attr<tern_index_topk_mask_attrs>().topk); }

bool supports_paged(const PlanDesc& desc, std::string& reason) { return supports_form(desc, 4, kPaged, reason); }
std::uint64_t workspace_paged(const PlanDesc& desc) { return workspace_form(desc, kPaged); }
void run_paged(const Launch& launch) { run_form(launch, kPaged, launch.attr<tern_index_topk_mask_paged_attrs>().topk); }

constexpr KernelEntry kKernels[] = {
    {TERN_OP_INDEX_TOPK_MASK, "matrix", supports, workspace, functions, run, kMatrix},
    {TERN_OP_INDEX_TOPK_MASK, "plain", supports, workspace, functions, run, kPlain},
    {TERN_OP_INDEX_TOPK_MASK_PAGED, "matrix", supports_paged, workspace_paged, functions, run_paged, kMatrix},
    {TERN_OP_INDEX_TOPK_MASK_PAGED, "plain", supports_paged, workspace_paged, functions, run_paged, kPlain}};

}  // namespace

KernelList index_topk_mask_kernels() { return kKernels; }

}  // namespace tern::cuda
