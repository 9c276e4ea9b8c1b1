#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/quantised.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  if (!readable_rows(desc.arg(TERN_DEQUANTIZE_W), reason)) return false;
  return Check(desc, reason).floats({TERN_DEQUANTIZE_Y}).same_shape({TERN_DEQUANTIZE_W, TERN_DEQUANTIZE_Y}).ok();
}

void run(const KernelArgs& args) {
  const TensorView &w = args[TERN_DEQUANTIZE_W], &y = args[TERN_DEQUANTIZE_Y];
  const TileIo io(args);
  const std::int64_t width = w.dim(1);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, width));
  args.pool->parallel_for(w.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t first = 0; first < width; first += kTile) {
        const std::int64_t n = std::min(kTile, width - first);
        const float* values = row_tile(io, w, r, first, n, args.target, buffer.data());
        if (values != buffer.data()) std::copy(values, values + n, buffer.data());
        io.store(y, r * y.stride(0) + first * y.stride(1), y.stride(1), n, false, buffer.data());
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_DEQUANTIZE, "dequantize", supports, nullptr, nullptr, run}};

}  // namespace

KernelList dequantize_kernels() { return kKernels; }

}  // namespace tern::cpu
