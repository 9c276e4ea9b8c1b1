#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

// The struct ScatterSizes of cu/scatter_add_rows.cu.
struct Sizes {
  std::int64_t rows, rows_of_y, width, chunks;
  std::int64_t index;
  std::int64_t x[2], y[2];
};

constexpr std::int64_t kRowsOfBlock = 32;  // that a block of 256 threads sorts in
constexpr std::int64_t kColumns = 8;       // of a thread

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

// The order of the rows.
std::uint64_t workspace(const PlanDesc& desc) {
  return static_cast<std::uint64_t>(desc.arg(TERN_SCATTER_ADD_ROWS_X).shape[0]) * sizeof(std::int32_t);
}

Functions functions(const PlanDesc& /*desc*/) {
  return {"scatter_add_rows_sort", "scatter_add_rows_clear", "scatter_add_rows"};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SCATTER_ADD_ROWS_X], &index = launch[TERN_SCATTER_ADD_ROWS_INDEX];
  const TensorView& y = launch[TERN_SCATTER_ADD_ROWS_Y];
  Sizes sizes{x.dim(0), y.dim(0), y.dim(1), parts_of(y.dim(1), kColumns), index.stride(0), {}, {}};
  take_strides(x, sizes.x);
  take_strides(y, sizes.y);
  const Place order = launch.workspace();
  Call sort = launch.call(0);
  sort.arg(index.planes[0]).arg(order).arg(sizes.rows).arg(sizes.index);
  sort.run({parts_of(sizes.rows, kRowsOfBlock), 1, 1}, {256, 1, 1});
  if (!y.adds) launch.call(1).arg(y).arg(sizes).run(sizes.rows_of_y * sizes.chunks, kPlainThreads);
  Call add = launch.call(2);
  add.arg(x).arg(index.planes[0]).arg(order).arg(y).arg(sizes).run(sizes.rows * sizes.chunks, kPlainThreads);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_SCATTER_ADD_ROWS, "scatter_add_rows", supports, workspace, functions, run}};

}  // namespace

KernelList scatter_add_rows_kernels() { return kKernels; }

}  // namespace tern::cuda
