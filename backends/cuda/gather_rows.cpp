#include "backends/cuda/kernels.h"
#include "backends/cuda/text.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_GATHER_ROWS_X), &y = desc.arg(TERN_GATHER_ROWS_Y);
  Check check(desc, reason);
  check.dtype(TERN_GATHER_ROWS_INDEX, TERN_I32).rank(TERN_GATHER_ROWS_INDEX, 1);
  check.dtype(TERN_GATHER_ROWS_Y, x.dtype).rank(TERN_GATHER_ROWS_Y, x.rank);
  check.dim(TERN_GATHER_ROWS_INDEX, 0, y.shape[0]);
  for (int d = 1; d < x.rank; ++d) check.dim(TERN_GATHER_ROWS_Y, d, x.shape[d]);
  return check.ok();
}

// As in cu/gather_rows.cu.
struct Sizes {
  std::int64_t rows, rows_of_x;
  std::int64_t x_row, y_row, index;
};

std::int64_t bytes_of(tern_dtype dtype) { return static_cast<std::int64_t>(tern_plugin_dtype_bytes(dtype)); }

Functions functions(const PlanDesc& desc) {
  return {cat("gather_rows_", bytes_of(desc.arg(TERN_GATHER_ROWS_X).dtype)), "gather_rows_wide"};
}

// One row: the view without its first dimension.
TensorView row_of(const TensorView& view) {
  TensorView row = view;
  row.desc.rank = view.desc.rank > 1 ? view.desc.rank - 1 : 1;
  for (int d = 0; d < row.desc.rank; ++d) {
    row.desc.shape[d] = view.desc.rank > 1 ? view.dim(d + 1) : 1;
    row.desc.strides[d] = view.desc.rank > 1 ? view.stride(d + 1) : 1;
  }
  return row;
}

// 16 bytes at a time, where every row is made of such.
bool is_wide(const TensorView& tensor, const Walk& row, std::int64_t bytes) {
  return row.rank == 0 && row.dense != 0 && row.inner * bytes % 16 == 0 && tensor.planes[0] % 16 == 0 &&
         tensor.stride(0) * bytes % 16 == 0;
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_GATHER_ROWS_X], &index = launch[TERN_GATHER_ROWS_INDEX];
  const TensorView& y = launch[TERN_GATHER_ROWS_Y];
  const TensorView from = row_of(x), to = row_of(y);
  const Walk walk = make_walk({&to, &from});
  Sizes sizes{y.dim(0), x.dim(0), x.stride(0), y.stride(0), index.stride(0)};
  const std::int64_t bytes = bytes_of(x.dtype());
  if (is_wide(x, walk, bytes) && is_wide(y, walk, bytes)) {
    sizes.x_row = sizes.x_row * bytes / 16;
    sizes.y_row = sizes.y_row * bytes / 16;
    const std::int64_t quads = walk.inner * bytes / 16;
    Call call = launch.call(1);
    call.arg(x.planes[0]).arg(index.planes[0]).arg(y.planes[0]).arg(sizes).arg(quads);
    call.run(sizes.rows * quads, kPlainThreads);
  } else {
    Call call = launch.call(0);
    call.arg(x.planes[0]).arg(index.planes[0]).arg(y.planes[0]).arg(sizes).arg(walk);
    call.run(sizes.rows * walk.units, kPlainThreads);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_GATHER_ROWS, "gather_rows", supports, nullptr, functions, run}};

}  // namespace

KernelList gather_rows_kernels() { return kKernels; }

}  // namespace tern::cuda
