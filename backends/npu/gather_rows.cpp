// gather_rows: y[r] = x[index[r]].
#include "backends/npu/rows.h"

namespace tern::npu {

void gather_or_zero(Composer& c, const View& table, const View& index, const View& out) {
  if (out.elements() == 0) return;
  if (table.dim(0) == 0) {
    c.zero(out);
    return;
  }
  // A negative index is an error on the device, so it becomes 0, and its row is zeroed afterwards.
  const View places = c.temp(ACL_INT32, index.shape);
  const View skipped = c.temp(ACL_BOOL, index.shape);
  c.call(TERN_NPU_OP(ClampMin), index, Number{0, ACL_INT32}, places);
  c.call(TERN_NPU_OP(LtScalar), index, Number{0, ACL_INT32}, skipped);
  const View rows = out.contiguous() ? out : c.temp(out.dtype, out.shape);
  c.call(TERN_NPU_OP(GatherV2), table, std::int64_t{0}, places, rows);
  const View mask = skipped.unsqueezed(1).expanded(1, out.dim(1));
  const bool whole = out.dtype == ACL_INT8 || out.dtype == ACL_UINT8 || out.dtype == ACL_INT32 ||
                     out.dtype == ACL_INT64 || out.dtype == ACL_INT16 || out.dtype == ACL_UINT32;
  c.call(TERN_NPU_OP(InplaceMaskedFillScalar), rows, mask, Number{0.0, whole ? ACL_INT32 : ACL_FLOAT});
  if (!out.contiguous()) c.copy(out, rows);
}

namespace {

View as_matrix(const View& view) {
  if (view.rank() == 2) return view;
  std::int64_t width = 1;
  for (int d = 1; d < view.rank(); ++d) width *= view.dim(d);
  return view.reshaped({view.dim(0), width});
}

// Rows with gaps between them become dense where a shape of two dimensions can't say them.
View dense_matrix(Composer& c, const View& view) { return as_matrix(view.rank() == 2 ? view : c.dense(view)); }

void gather(Composer& c) {
  const View y = c.arg(TERN_GATHER_ROWS_Y);
  if (y.elements() == 0) return;
  const View x = dense_matrix(c, c.arg(TERN_GATHER_ROWS_X));
  const View index = c.arg(TERN_GATHER_ROWS_INDEX);
  const View rows = y.rank() == 2 || y.contiguous() ? as_matrix(y) : as_matrix(c.temp(y.dtype, y.shape));
  gather_or_zero(c, x, index, rows);
  if (rows.place != y.place) c.copy(y, rows.reshaped(y.shape));
}

constexpr KernelEntry kGather[] = {{TERN_OP_GATHER_ROWS, "gather", gather, true}};

}  // namespace

KernelList gather_rows_kernels() { return kGather; }

}  // namespace tern::npu
