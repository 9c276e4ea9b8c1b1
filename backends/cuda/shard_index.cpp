#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_SHARD_INDEX_IDS, TERN_I32)
      .dtype(TERN_SHARD_INDEX_Y, TERN_I32)
      .rank(TERN_SHARD_INDEX_IDS, 1)
      .rank(TERN_SHARD_INDEX_Y, 1)
      .dim(TERN_SHARD_INDEX_Y, 0, desc.arg(TERN_SHARD_INDEX_IDS).shape[0])
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"shard_index"}; }

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_shard_index_attrs>();
  const TensorView &ids = launch[TERN_SHARD_INDEX_IDS], &y = launch[TERN_SHARD_INDEX_Y];
  const Walk walk = make_walk({&y, &ids});
  launch.call(0)
      .arg(ids.planes[0])
      .arg(y.planes[0])
      .arg(walk)
      .arg(std::int64_t{attrs.first})
      .arg(std::int64_t{attrs.count})
      .run(walk.units, kPlainThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SHARD_INDEX, "shard_index", supports, nullptr, functions, run}};

}  // namespace

KernelList shard_index_kernels() { return kKernels; }

}  // namespace tern::cuda
