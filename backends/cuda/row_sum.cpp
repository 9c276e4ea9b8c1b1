#include <algorithm>

#include "backends/cuda/rows.h"

namespace tern::cuda {
namespace {

constexpr std::int64_t kMostParts = 64;  // of the rows, where columns are summed
constexpr std::int64_t kLeastRows = 64;  // of a part
constexpr std::int64_t kColumns = 256;   // of a block

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

std::int64_t rows_of_part(std::int64_t rows) { return std::max(kLeastRows, parts_of(rows, kMostParts)); }

// The columns' sums of each part.
std::uint64_t workspace(const PlanDesc& desc) {
  if (desc.attrs<tern_row_sum_attrs>().axis == 1) return 0;
  const auto& x = desc.arg(TERN_ROW_SUM_X);
  const std::int64_t parts = std::min(kMostParts, parts_of(x.shape[0], kLeastRows));
  return static_cast<std::uint64_t>(parts * x.shape[1]) * sizeof(float);
}

Functions functions(const PlanDesc& desc) {
  if (desc.attrs<tern_row_sum_attrs>().axis == 1) return {"row_sum_along"};
  return {"row_sum_across", "column_sum"};
}

void sum_along(const Launch& launch) {
  const TensorView &x = launch[TERN_ROW_SUM_X], &out = launch[TERN_ROW_SUM_OUT];
  const RowTile tile = row_tile(x.dim(1), 4);
  Call call = launch.call(0);
  call.arg(x).arg(out).arg(x.dim(0)).arg(x.dim(1)).arg(x.stride(0)).arg(x.stride(1)).arg(out.stride(0));
  call.arg(static_cast<std::int32_t>(tile.team)).run(tile.blocks(x.dim(0)), tile.threads());
}

void sum_across(const Launch& launch) {
  const TensorView &x = launch[TERN_ROW_SUM_X], &out = launch[TERN_ROW_SUM_OUT];
  const std::int64_t rows = rows_of_part(x.dim(0)), parts = parts_of(x.dim(0), rows);
  Call call = launch.call(0);
  call.arg(x).arg(launch.workspace()).arg(x.dim(0)).arg(x.dim(1)).arg(x.stride(0)).arg(x.stride(1)).arg(rows);
  call.run({parts_of(x.dim(1), kColumns), parts, 1}, {256, 1, 1});
  sum_columns(launch.call(1), out, launch.workspace(), parts);
}

void run(const Launch& launch) {
  if (launch.attr<tern_row_sum_attrs>().axis == 1) {
    sum_along(launch);
  } else {
    sum_across(launch);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ROW_SUM, "row_sum", supports, workspace, functions, run}};

}  // namespace

KernelList row_sum_kernels() { return kKernels; }

}  // namespace tern::cuda
