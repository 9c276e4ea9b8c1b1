// Sums and tests of whole tensors: row_sum, sum_squares, all_finite.
#include <numeric>

#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

std::vector<std::int64_t> all_dims(const View& view) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(view.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

void row_sum(Composer& c) {
  const View x = c.f32(c.arg(TERN_ROW_SUM_X));
  const View out = c.result(TERN_ROW_SUM_OUT);
  c.reduce_sum(x, {c.attrs<tern_row_sum_attrs>().axis}, out);
  c.finish(TERN_ROW_SUM_OUT, out);
}

void sum_squares(Composer& c) {
  const View x = c.f32(c.arg(TERN_SUM_SQUARES_X));
  const View out = c.result(TERN_SUM_SQUARES_OUT);
  const View squares = c.temp(ACL_FLOAT, x.shape);
  c.mul(x, x, squares);
  c.reduce_sum(squares, all_dims(squares), out.reshaped({}));
  c.finish(TERN_SUM_SQUARES_OUT, out);
}

void all_finite(Composer& c) {
  const View x = c.arg(TERN_ALL_FINITE_X);
  const View out = c.arg(TERN_ALL_FINITE_OUT);
  const bool accumulates = c.accumulates(TERN_ALL_FINITE_OUT);
  if (x.elements() == 0) {
    if (!accumulates) c.call(TERN_NPU_OP(InplaceFillScalar), out, Number{1, ACL_INT32});
    return;
  }
  const View finite = c.temp(ACL_BOOL, x.shape);
  const View all = c.temp(ACL_BOOL, {1});
  c.call(TERN_NPU_OP(IsFinite), x, finite);
  c.call(TERN_NPU_OP(All), finite.reshaped({finite.elements()}), Ints{0}, true, all);
  if (!accumulates) {
    c.copy(out, all);
    return;
  }
  const View held = c.temp(ACL_BOOL, {1});
  c.copy(held, out);
  c.call(TERN_NPU_OP(LogicalAnd), held, all, all);
  c.copy(out, all);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ROW_SUM, "reduce", row_sum},
    {TERN_OP_SUM_SQUARES, "reduce", sum_squares},
    {TERN_OP_ALL_FINITE, "reduce", all_finite, true},
};

}  // namespace

KernelList sums_kernels() { return kKernels; }

}  // namespace tern::npu
