#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kColumns = 128;  // of one task: rows meet in y, so threads take columns

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_SCATTER_ADD_ROWS_X), &y = desc.arg(TERN_SCATTER_ADD_ROWS_Y);
  return Check(desc, reason)
      .floats({TERN_SCATTER_ADD_ROWS_X, TERN_SCATTER_ADD_ROWS_Y})
      .dtype(TERN_SCATTER_ADD_ROWS_INDEX, TERN_I32)
      .rank(TERN_SCATTER_ADD_ROWS_X, 2)
      .rank(TERN_SCATTER_ADD_ROWS_Y, 2)
      .dim(TERN_SCATTER_ADD_ROWS_INDEX, 0, x.shape[0])
      .dim(TERN_SCATTER_ADD_ROWS_Y, 1, x.shape[1])
      .that(y.shape[0] >= 0, "y has no rows")
      .ok();
}

bool sums_in_place(const tern_tensor_desc& y) { return y.dtype == TERN_F32 && y.strides[1] == 1; }

// The fp32 sums of [n, width] where y cannot hold them.
std::uint64_t workspace(const PlanDesc& desc) {
  const auto& y = desc.arg(TERN_SCATTER_ADD_ROWS_Y);
  return sums_in_place(y) ? 0 : static_cast<std::uint64_t>(y.shape[0] * y.shape[1]) * sizeof(float);
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_SCATTER_ADD_ROWS_X], &index = args[TERN_SCATTER_ADD_ROWS_INDEX];
  const TensorView& y = args[TERN_SCATTER_ADD_ROWS_Y];
  const bool accumulate = args.accumulates(TERN_SCATTER_ADD_ROWS_Y), in_place = sums_in_place(y.desc);
  const std::int64_t width = x.dim(1);
  float* sums = in_place ? y.data<float>() : reinterpret_cast<float*>(args.workspace);
  const std::int64_t row_stride = in_place ? y.stride(0) : width;
  for (std::int64_t r = 0; r < x.dim(0); ++r) {
    const std::int64_t to = index.data<const std::int32_t>()[r * index.stride(0)];
    if (to >= 0) require_index(to, y.dim(0), "scatter_add_rows: index");
  }
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const std::int64_t work = std::max<std::int64_t>(1, (x.dim(0) + y.dim(0)) * kColumns);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / work);
  args.pool->parallel_for((width + kColumns - 1) / kColumns, grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    const std::int64_t limit = std::min(width, end * kColumns);
    for (std::int64_t first = begin * kColumns; first < limit; first += kColumns) {
      const std::int64_t n = std::min(kColumns, width - first);
      for (std::int64_t row = 0; row < y.dim(0) && !(in_place && accumulate); ++row) {
        std::fill_n(sums + row * row_stride + first, n, 0.0F);
      }
      for (std::int64_t r = 0; r < x.dim(0); ++r) {
        const std::int64_t to = index.data<const std::int32_t>()[r * index.stride(0)];
        if (to < 0) continue;
        const float* px = io.load(x, r * x.stride(0) + first * x.stride(1), x.stride(1), n, buffer.data());
        float* sum = sums + to * row_stride + first;
        math.add(sum, px, static_cast<std::size_t>(n), sum);
      }
      for (std::int64_t row = 0; row < y.dim(0) && !in_place; ++row) {
        io.store(y, row * y.stride(0) + first * y.stride(1), y.stride(1), n, accumulate,
                 sums + row * row_stride + first);
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SCATTER_ADD_ROWS, "scatter_add_rows", supports, workspace, nullptr, run}};

}  // namespace

KernelList scatter_add_rows_kernels() { return kKernels; }

}  // namespace tern::cpu
