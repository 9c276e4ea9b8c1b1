// scatter_add_rows: y[n] = sum of the rows x[r] with index[r] == n.
#include <utility>

#include "backends/npu/kernel.h"

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

// view[i] of rows `shift` further down: what stands before those that have a row there.
View before(const View& view, std::int64_t shift) { return view.slice(0, 0, view.dim(0) - shift); }
View after(const View& view, std::int64_t shift) { return view.slice(0, shift, view.dim(0) - shift); }

// For chips without the above: rows in the order of their index, sums that double their reach within one index until
// the last row of each has all of it, and those rows gathered. A NaN stays with its index.
void by_sorting(Composer& c) {
  const View y = c.result(TERN_SCATTER_ADD_ROWS_Y);
  if (y.elements() == 0) return;
  const View x = c.f32(c.arg(TERN_SCATTER_ADD_ROWS_X));
  if (x.elements() == 0) {
    c.zero(y);
    c.finish(TERN_SCATTER_ADD_ROWS_Y, y);
    return;
  }
  const std::int64_t rows = x.dim(0);
  const std::int64_t width = x.dim(1);
  const std::int64_t n = y.dim(0);
  const View keys = c.temp(ACL_INT32, {rows});
  const View order = c.temp(ACL_INT64, {rows});
  c.call(TERN_NPU_OP(Sort), c.arg(TERN_SCATTER_ADD_ROWS_INDEX), true, std::int64_t{0}, false, keys, order);
  View sums = c.temp(ACL_FLOAT, {rows, width});
  View next = c.temp(ACL_FLOAT, {rows, width});
  c.call(TERN_NPU_OP(GatherV2), x, std::int64_t{0}, order, sums);
  const View same = c.temp(ACL_BOOL, {rows});
  const View zero = c.temp(ACL_FLOAT, {1});
  const View part = c.temp(ACL_FLOAT, {rows, width});
  c.zero(zero);
  for (std::int64_t reach = 1; reach < rows; reach *= 2) {
    const View hit = before(same, reach);
    const View term = before(part, reach);
    c.call(TERN_NPU_OP(EqTensor), before(keys, reach), after(keys, reach), hit);
    c.call(TERN_NPU_OP(SWhere), hit.unsqueezed(1), before(sums, reach), zero, term);
    c.copy(next.slice(0, 0, reach), sums.slice(0, 0, reach));
    c.add(after(sums, reach), term, after(next, reach));
    std::swap(sums, next);
  }
  // The last row of each target; none where another's key stands there.
  const View targets = c.temp(ACL_INT32, {n});
  const View last = c.temp(ACL_INT64, {n});
  const View found = c.temp(ACL_INT32, {n, 1});
  const View missing = c.temp(ACL_BOOL, {n});
  const auto whole = [](double value) { return Number{value, ACL_INT32}; };
  c.call(TERN_NPU_OP(Arange), whole(0), whole(static_cast<double>(n)), whole(1), targets);
  c.call(TERN_NPU_OP(SearchSorted), keys, targets, false, true, nullptr, last);
  c.call(TERN_NPU_OP(Subs), last, Number{1, ACL_INT64}, Number{1, ACL_INT64}, last);
  c.call(TERN_NPU_OP(ClampMin), last, Number{0, ACL_INT64}, last);
  c.call(TERN_NPU_OP(GatherV2), keys.unsqueezed(1), std::int64_t{0}, last, found);
  c.call(TERN_NPU_OP(NeTensor), found.reshaped({n}), targets, missing);
  const View gathered = c.temp(ACL_FLOAT, {n, width});
  c.call(TERN_NPU_OP(GatherV2), sums, std::int64_t{0}, last, gathered);
  c.call(TERN_NPU_OP(SWhere), missing.unsqueezed(1), zero, gathered, y);
  c.finish(TERN_SCATTER_ADD_ROWS_Y, y);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_SCATTER_ADD_ROWS, "embedding_gradient", by_embedding},
    {TERN_OP_SCATTER_ADD_ROWS, "sort", by_sorting},
};

}  // namespace

KernelList scatter_add_rows_kernels() { return kKernels; }

}  // namespace tern::npu
