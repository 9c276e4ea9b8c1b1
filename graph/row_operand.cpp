#include "graph/row_operand.h"

namespace tern::graph {
namespace {

// The rows of its storage that a view begins and ends with.
RowRange rows_of(const Operand& view) {
  std::int64_t last = view.offset;
  for (int d = 0; d < view.desc.rank; ++d) last += (view.desc.shape[d] - 1) * view.desc.strides[d];
  return {view.offset / view.row_stride, last / view.row_stride + 1};
}

}  // namespace

const Part* part_with(const Operand& view) {
  const RowRange rows = rows_of(view);
  for (const Part& part : *view.parts) {
    if (part.rows.begin <= rows.begin && rows.end <= part.rows.end) return &part;
  }
  return nullptr;
}

Cut cut_of(const Operand& view) {
  Cut cut;
  for (int d = 0; d < view.desc.rank; ++d) {
    if (view.desc.shape[d] < 2 || view.desc.strides[d] < view.row_stride) continue;
    if (cut.dim < 0 || view.desc.strides[d] > view.desc.strides[cut.dim]) cut.dim = d;
  }
  if (cut.dim < 0 || view.desc.strides[cut.dim] % view.row_stride != 0) return {};
  const std::int64_t first = view.offset / view.row_stride;
  const std::int64_t step = view.desc.strides[cut.dim] / view.row_stride;
  cut.borders = {0, view.desc.shape[cut.dim]};
  for (const Part& part : *view.parts) {
    const std::int64_t at = part.rows.begin - first;
    if (at <= 0 || at >= view.desc.shape[cut.dim] * step) continue;
    if (at % step != 0) return {};
    cut.borders.insert(at / step);
  }
  if (cut.borders.size() < 3) return {};  // the border lies elsewhere
  return cut;
}

}  // namespace tern::graph
