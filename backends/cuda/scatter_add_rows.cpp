#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

// The struct ScatterSizes of cu/scatter_add_rows.cu.
struct Sizes {
  std::int64_t rows, rows_of_y, width, chunks;
  std::int64_t x[2], y[2];
};

constexpr std::int64_t kTile = 512;   // rows that are sorted together: TILE there
constexpr std::int64_t kColumns = 8;  // of a thread

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_SCATTER_ADD_ROWS_X);
  return Check(desc, reason)
      .floats({TERN_SCATTER_ADD_ROWS_X, TERN_SCATTER_ADD_ROWS_Y})
      .dtype(TERN_SCATTER_ADD_ROWS_INDEX, TERN_I32)
      .rank(TERN_SCATTER_ADD_ROWS_X, 2)
      .rank(TERN_SCATTER_ADD_ROWS_Y, 2)
      .dim(TERN_SCATTER_ADD_ROWS_INDEX, 0, x.shape[0])
      .dim(TERN_SCATTER_ADD_ROWS_Y, 1, x.shape[1])
      .ok();
}

std::uint64_t list_bytes(std::int64_t rows) { return static_cast<std::uint64_t>(round_up(rows, 32)) * 8; }

// Two lists of the rows and where each goes: sorted by tiles, and all together.
std::uint64_t workspace(const PlanDesc& desc) { return 2 * list_bytes(desc.arg(TERN_SCATTER_ADD_ROWS_X).shape[0]); }

Functions functions(const PlanDesc& /*desc*/) {
  return {"scatter_add_rows_tiles", "scatter_add_rows_order", "scatter_add_rows_clear", "scatter_add_rows"};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SCATTER_ADD_ROWS_X], &index = launch[TERN_SCATTER_ADD_ROWS_INDEX];
  const TensorView& y = launch[TERN_SCATTER_ADD_ROWS_Y];
  Sizes sizes{x.dim(0), y.dim(0), y.dim(1), parts_of(y.dim(1), kColumns), {}, {}};
  take_strides(x, sizes.x);
  take_strides(y, sizes.y);
  const Place tiles = launch.workspace(), order = launch.workspace(list_bytes(sizes.rows));
  launch.call(0).arg(index.planes[0]).arg(tiles).arg(sizes.rows).arg(index.stride(0)).run(sizes.rows, kTile);
  launch.call(1).arg(tiles).arg(order).arg(sizes.rows).run(sizes.rows, kPlainThreads);
  if (!y.adds) launch.call(2).arg(y).arg(sizes).run(sizes.rows_of_y * sizes.chunks, kPlainThreads);
  launch.call(3).arg(x).arg(order).arg(y).arg(sizes).run(sizes.rows * sizes.chunks, kPlainThreads);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_SCATTER_ADD_ROWS, "scatter_add_rows", supports, workspace, functions, run}};

}  // namespace

KernelList scatter_add_rows_kernels() { return kKernels; }

}  // namespace tern::cuda
