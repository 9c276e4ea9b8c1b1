#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

// The struct Shape of cl/scatter_add_rows.cl.
struct Shape {
  std::int64_t rows, width, parts;
  std::int64_t x[2], y[2];
};

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

std::uint64_t head_bytes(const tern_tensor_desc& y) { return static_cast<std::uint64_t>(round_up(y.shape[0] * 4, 64)); }

std::uint64_t workspace(const PlanDesc& desc) {
  const auto rows = static_cast<std::uint64_t>(desc.arg(TERN_SCATTER_ADD_ROWS_X).shape[0]);
  return head_bytes(desc.arg(TERN_SCATTER_ADD_ROWS_Y)) + rows * 4;
}

std::int64_t columns_of(const Facts& device) { return device.cpu ? 64 : 1; }  // of a work-item

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("COLUMNS", columns_of(desc.device))
      .tensor("x", desc, TERN_SCATTER_ADD_ROWS_X)
      .tensor("y", desc, TERN_SCATTER_ADD_ROWS_Y)
      .adds("y", desc, TERN_SCATTER_ADD_ROWS_Y);
  const char* const link = desc.device.cpu ? "link_in_turn" : "link_beside";
  return {{"scatter_add_rows", link, defines.text()}, {"scatter_add_rows", "add_rows", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_SCATTER_ADD_ROWS_X], &index = launch[TERN_SCATTER_ADD_ROWS_INDEX];
  const TensorView& y = launch[TERN_SCATTER_ADD_ROWS_Y];
  const Facts& device = launch.device();
  if (y.elements() == 0) return;
  const Place head = launch.workspace();
  const Place next = launch.workspace(head_bytes(launch.planned().args[TERN_SCATTER_ADD_ROWS_Y]));
  launch.fill(head, 0xff, static_cast<std::uint64_t>(y.dim(0)) * 4);
  Call link = launch.call(0);
  link.arg(index).arg(head).arg(next).arg(x.dim(0)).arg(index.stride(0)).arg(y.dim(0));
  if (device.cpu) {
    link.run(x.dim(0) > 0 ? 1 : 0, 1);
  } else {
    link.run(x.dim(0), plain_group(device));
  }
  const Shape shape{y.dim(0),
                    y.dim(1),
                    parts_of(y.dim(1), columns_of(device)),
                    {x.stride(0), x.stride(1)},
                    {y.stride(0), y.stride(1)}};
  launch.call(1).arg(x).arg(head).arg(next).arg(y).arg(shape).run(shape.rows * shape.parts, plain_group(device));
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_SCATTER_ADD_ROWS, "scatter_add_rows", supports, workspace, functions, run}};

}  // namespace

KernelList scatter_add_rows_kernels() { return kKernels; }

}  // namespace tern::opencl
