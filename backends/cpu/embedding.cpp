#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/quantised.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  if (!readable_rows(desc.arg(TERN_EMBEDDING_TABLE), reason)) return false;
  return Check(desc, reason)
      .floats({TERN_EMBEDDING_Y})
      .dtype(TERN_EMBEDDING_IDS, TERN_I32)
      .rank(TERN_EMBEDDING_Y, 2)
      .dim(TERN_EMBEDDING_Y, 1, desc.arg(TERN_EMBEDDING_TABLE).shape[1])
      .dim(TERN_EMBEDDING_IDS, 0, desc.arg(TERN_EMBEDDING_Y).shape[0])
      .ok();
}

void run(const KernelArgs& args) {
  const TensorView &table = args[TERN_EMBEDDING_TABLE], &ids = args[TERN_EMBEDDING_IDS], &y = args[TERN_EMBEDDING_Y];
  const TileIo io(args);
  const std::int64_t width = table.dim(1);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, width));
  args.pool->parallel_for(y.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t id = ids.data<const std::int32_t>()[r * ids.stride(0)];
      if (id != -1) require_index(id, table.dim(0), "embedding: ids");
      for (std::int64_t first = 0; first < width; first += kTile) {
        const std::int64_t n = std::min(kTile, width - first);
        if (id == -1) {
          std::fill_n(buffer.data(), n, 0.0F);
        } else if (const float* values = row_tile(io, table, id, first, n, args.target, buffer.data());
                   values != buffer.data()) {
          std::copy(values, values + n, buffer.data());
        }
        io.store(y, r * y.stride(0) + first * y.stride(1), y.stride(1), n, false, buffer.data());
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_EMBEDDING, "embedding", supports, nullptr, nullptr, run}};

}  // namespace

KernelList embedding_kernels() { return kKernels; }

}  // namespace tern::cpu
