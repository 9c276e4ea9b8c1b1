// scatter_add_rows: y[n] = sum of the rows x[r] with index[r] == n.
#include "backends/npu/product.h"

namespace tern::npu {
namespace {

// The gradient of an embedding, whose row 0 takes what is skipped.
void by_embedding(Composer& c) {
  // ops-nn documents EmbeddingDenseBackward for the 910, A2, A3 and 950.
  if (c.chip().family == Family::a310p) c.refuse("CANN has no EmbeddingDenseBackward on the 310P");
  const View y = c.result(TERN_SCATTER_ADD_ROWS_Y);
  if (y.elements() == 0) return;
  const View x = c.f32(c.arg(TERN_SCATTER_ADD_ROWS_X));
  if (x.elements() == 0) {
    c.zero(y);
  } else {
    const View places = c.temp(ACL_INT32, {x.dim(0)});
    c.call(TERN_NPU_OP(Adds), c.arg(TERN_SCATTER_ADD_ROWS_INDEX), Number{1, ACL_INT32}, Number{1, ACL_INT32}, places);
    c.call(TERN_NPU_OP(ClampMin), places, Number{0, ACL_INT32}, places);
    const std::int64_t rows = y.dim(0) + 1;
    const View sums = c.temp(ACL_FLOAT, {rows, y.dim(1)});
    c.call(TERN_NPU_OP(EmbeddingDenseBackward), x, places, rows, std::uint64_t{0}, false, sums);
    c.copy(y, sums.slice(0, 1, y.dim(0)));
  }
  c.finish(TERN_SCATTER_ADD_ROWS_Y, y);
}

// [n, rows] of ones where a row goes there, times x: for chips without the above.
void by_product(Composer& c) {
  const View y = c.result(TERN_SCATTER_ADD_ROWS_Y);
  if (y.elements() == 0) return;
  const View x = c.f32(c.arg(TERN_SCATTER_ADD_ROWS_X));
  const Dims shape = {y.dim(0), x.dim(0)};
  if (x.elements() > 0) {
    const View places = c.temp(ACL_INT32, {y.dim(0), 1});
    const View same = c.temp(ACL_BOOL, shape);
    c.call(TERN_NPU_OP(Arange), Number{0, ACL_INT32}, Number{static_cast<double>(y.dim(0)), ACL_INT32},
           Number{1, ACL_INT32}, places.reshaped({y.dim(0)}));
    c.call(TERN_NPU_OP(EqTensor), places, c.arg(TERN_SCATTER_ADD_ROWS_INDEX).unsqueezed(0), same);
    multiply_f32(c, c.cast(same, ACL_FLOAT), x, y);
  } else {
    c.zero(y);
  }
  c.finish(TERN_SCATTER_ADD_ROWS_Y, y);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_SCATTER_ADD_ROWS, "embedding_gradient", by_embedding},
    {TERN_OP_SCATTER_ADD_ROWS, "one_hot_product", by_product},
};

}  // namespace

KernelList scatter_add_rows_kernels() { return kKernels; }

}  // namespace tern::npu
