#include <vector>

#include "backends/cpu/check.h"
#include "backends/cpu/column_sum.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const int axis = desc.attrs<tern_row_sum_attrs>().axis;
  return Check(desc, reason)
      .floats({TERN_ROW_SUM_X, TERN_ROW_SUM_OUT})
      .that(axis == 0 || axis == 1, "the axis must be 0 or 1")
      .rank(TERN_ROW_SUM_X, 2)
      .rank(TERN_ROW_SUM_OUT, 1)
      .dim(TERN_ROW_SUM_OUT, 0, desc.arg(TERN_ROW_SUM_X).shape[axis == 0 ? 1 : 0])
      .ok();
}

// Tiles of a row are added in double, in order.
void sum_rows(const KernelArgs& args) {
  const TensorView &x = args[TERN_ROW_SUM_X], &out = args[TERN_ROW_SUM_OUT];
  const std::int64_t width = x.dim(1);
  const bool accumulate = args.accumulates(TERN_ROW_SUM_OUT);
  const TileIo io(args);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, width));
  args.pool->parallel_for(x.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    for (std::int64_t row = begin; row < end; ++row) {
      double total = 0.0;
      for (std::int64_t first = 0; first < width; first += kTile) {
        const std::int64_t n = std::min(kTile, width - first);
        const float* px = io.load(x, row * x.stride(0) + first * x.stride(1), x.stride(1), n, buffer.data());
        total += tile_math(args.target).sum(px, static_cast<std::size_t>(n));
      }
      auto value = static_cast<float>(total);
      io.store(out, row * out.stride(0), 1, 1, accumulate, &value);
    }
  });
}

void sum_columns(const KernelArgs& args) {
  const TensorView &x = args[TERN_ROW_SUM_X], &out = args[TERN_ROW_SUM_OUT];
  const TileIo io(args);
  column_sum(args, x.dim(0), x.dim(1), out, args.accumulates(TERN_ROW_SUM_OUT),
             [&](std::int64_t row, std::int64_t first, std::int64_t n, float* buffer) {
               return io.load(x, row * x.stride(0) + first * x.stride(1), x.stride(1), n, buffer);
             });
}

void run(const KernelArgs& args) {
  if (args.attr<tern_row_sum_attrs>().axis == 1) {
    sum_rows(args);
  } else {
    sum_columns(args);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ROW_SUM, "row_sum", supports, nullptr, nullptr, run}};

}  // namespace

KernelList row_sum_kernels() { return kKernels; }

}  // namespace tern::cpu
