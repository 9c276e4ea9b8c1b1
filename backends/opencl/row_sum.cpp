#include "backends/opencl/kernels.h"

namespace tern::opencl {
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

std::int64_t columns_of(const Facts& device) { return device.cpu ? 64 : 1; }  // of a work-item

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("GROUP", reducing_group(desc.device)).set("COLUMNS", columns_of(desc.device));
  defines.tensor("x", desc, TERN_ROW_SUM_X).tensor("out", desc, TERN_ROW_SUM_OUT).adds("out", desc, TERN_ROW_SUM_OUT);
  const bool rows = desc.attrs<tern_row_sum_attrs>().axis == 1;
  return {{"row_sum", rows ? "sum_rows" : "sum_columns", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_ROW_SUM_X], &out = launch[TERN_ROW_SUM_OUT];
  Call call = launch.call(0);
  call.arg(x).arg(out).arg(x.dim(0)).arg(x.dim(1)).arg(x.stride(0)).arg(x.stride(1)).arg(out.stride(0));
  const Facts& device = launch.device();
  if (launch.attr<tern_row_sum_attrs>().axis == 1) {
    const std::int64_t group = reducing_group(device);
    call.run(x.dim(0) * group, group);
  } else {
    call.run(parts_of(x.dim(1), columns_of(device)), plain_group(device));
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ROW_SUM, "row_sum", supports, nullptr, functions, run}};

}  // namespace

KernelList row_sum_kernels() { return kKernels; }

}  // namespace tern::opencl
