#include "backends/cpu/check.h"
#include "backends/cpu/dropped_rows.h"
#include "backends/cpu/kernels.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const float rate = desc.attrs<tern_dropout_attrs>().rate;
  return Check(desc, reason)
      .floats({TERN_DROPOUT_X, TERN_DROPOUT_Y})
      .dtype(TERN_DROPOUT_KEYS, TERN_I64)
      .dtype(TERN_DROPOUT_MASK, TERN_U8)
      .rank(TERN_DROPOUT_X, 2)
      .same_shape({TERN_DROPOUT_X, TERN_DROPOUT_MASK, TERN_DROPOUT_Y})
      .dim(TERN_DROPOUT_KEYS, 0, desc.arg(TERN_DROPOUT_X).shape[0])
      .that(rate >= 0.0F && rate < 1.0F, "the rate must lie in [0, 1)")
      .ok();
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_dropout_attrs>();
  const DroppedRows x(args, TERN_DROPOUT_X, TERN_DROPOUT_KEYS, TERN_DROPOUT_MASK, attrs.rate, attrs.site);
  const TensorView& y = args[TERN_DROPOUT_Y];
  const bool accumulate = args.accumulates(TERN_DROPOUT_Y);
  const std::int64_t rows = y.dim(0), width = y.dim(1);
  const TileIo io(args);
  const std::int64_t tiles = (width + kTile - 1) / kTile;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, std::min(width, kTile)));
  args.pool->parallel_for(rows * tiles, grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer bx, by;
    alignas(64) std::uint8_t keep[kTile];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t row = unit / tiles, first = unit % tiles * kTile;
      const std::int64_t n = std::min(kTile, width - first);
      x.find_kept(row, first, n, keep);
      const std::int64_t at = row * y.stride(0) + first * y.stride(1);
      const float* px = x.load(row, first, n, bx.data());
      float* py = TileIo::place(y, at, y.stride(1), accumulate, by.data());
      x.drop(keep, px, n, py);
      io.store(y, at, y.stride(1), n, accumulate, py);
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_DROPOUT, "dropout", supports, nullptr, nullptr, run}};

}  // namespace

KernelList dropout_kernels() { return kKernels; }

}  // namespace tern::cpu
