#include "backends/opencl/kernels.h"
#include "tern/plugin/desc.h"

namespace tern::opencl {
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

std::vector<Function> functions(const PlanDesc& desc) {
  const char* type = "uchar";
  switch (tern_plugin_dtype_bytes(desc.arg(TERN_GATHER_ROWS_X).dtype)) {
    case 2:
      type = "ushort";
      break;
    case 4:
      type = "uint";
      break;
    case 8:
      type = "ulong";
      break;
    default:
      break;
  }
  return {{"gather_rows", "gather_rows", std::string("-D ELEMENT=") + type}};
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

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_GATHER_ROWS_X], &index = launch[TERN_GATHER_ROWS_INDEX];
  const TensorView& y = launch[TERN_GATHER_ROWS_Y];
  const TensorView from = row_of(x), to = row_of(y);
  const Walk walk = make_walk(launch.device(), {&to, &from});
  Call call = launch.call(0);
  call.arg(x).arg(index).arg(y).arg(walk).arg(x.dim(0)).arg(x.stride(0)).arg(y.stride(0)).arg(index.stride(0));
  call.run({walk.units, y.dim(0), 1}, {plain_group(launch.device()), 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_GATHER_ROWS, "gather_rows", supports, nullptr, functions, run}};

}  // namespace

KernelList gather_rows_kernels() { return kKernels; }

}  // namespace tern::opencl
