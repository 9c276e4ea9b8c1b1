#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

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
  const TensorView &x = args[TERN_DROPOUT_X], &keys = args[TERN_DROPOUT_KEYS], &mask = args[TERN_DROPOUT_MASK];
  const TensorView& y = args[TERN_DROPOUT_Y];
  const bool accumulate = args.accumulates(TERN_DROPOUT_Y);
  const std::int64_t rows = x.dim(0), width = x.dim(1);
  const auto factor = static_cast<float>(1.0 / (1.0 - static_cast<double>(attrs.rate)));
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const std::int64_t tiles = (width + kTile - 1) / kTile;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, std::min(width, kTile)));
  args.pool->parallel_for(rows * tiles, grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer bx, by;
    alignas(64) std::uint8_t keep[kTile];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t row = unit / tiles, first = unit % tiles * kTile;
      const std::int64_t n = std::min(kTile, width - first);
      if (mask.present()) {
        const auto* from = mask.data<const std::uint8_t>() + row * mask.stride(0) + first * mask.stride(1);
        for (std::int64_t i = 0; i < n; ++i) keep[i] = from[i * mask.stride(1)];
      } else {
        const auto key = static_cast<std::uint64_t>(keys.data<const std::int64_t>()[row * keys.stride(0)]);
        math.philox_keep(key, static_cast<std::uint32_t>(first / 4), static_cast<std::uint32_t>(attrs.site), attrs.rate,
                         static_cast<std::size_t>((n + 3) / 4), keep);
      }
      const std::int64_t at = row * y.stride(0) + first * y.stride(1);
      const float* px = io.load(x, row * x.stride(0) + first * x.stride(1), x.stride(1), n, bx.data());
      float* py = TileIo::place(y, at, y.stride(1), accumulate, by.data());
      math.select(keep, px, factor, static_cast<std::size_t>(n), py);
      io.store(y, at, y.stride(1), n, accumulate, py);
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_DROPOUT, "dropout", supports, nullptr, nullptr, run}};

}  // namespace

KernelList dropout_kernels() { return kKernels; }

}  // namespace tern::cpu
