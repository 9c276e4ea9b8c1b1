#include "backends/npu/algebra.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

constexpr std::int64_t kPanel = std::int64_t{1} << 22;  // elements of [rows, top_k, width] at a time

std::int64_t panel_rows(const View& places, std::int64_t width) {
  return std::max<std::int64_t>(1, kPanel / std::max<std::int64_t>(1, places.dim(1) * width));
}

// Rows of x [rows, top_k, width] in fp32, as the places of some rows name them.
View taken(Algebra& algebra, const View& flat, const View& places) {
  const View rows = algebra.take_rows(flat, places.reshaped({places.elements()}));
  return algebra.composer().f32(rows).reshaped({places.dim(0), places.dim(1), flat.dim(1)});
}

void compose(Composer& c) {
  Algebra algebra(c);
  const View x = c.dense(c.arg(TERN_MOE_COMBINE_X)), places = c.arg(TERN_MOE_COMBINE_PLACES);
  const View weights = c.arg(TERN_MOE_COMBINE_WEIGHTS), y = c.arg(TERN_MOE_COMBINE_Y);
  const std::int64_t width = x.dim(2), most = panel_rows(places, width);
  const View flat = x.reshaped({x.dim(0) * x.dim(1), width});
  for (std::int64_t row = 0; row < y.dim(0); row += most) {
    const std::int64_t mark = c.mark(), rows = std::min(most, y.dim(0) - row);
    const View terms = taken(algebra, flat, places.slice(0, row, rows));
    View weighted = terms;
    if (weights.present()) weighted = algebra.mul(terms, weights.slice(0, row, rows).unsqueezed(2));
    const View total = algebra.sum(weighted, 1).reshaped({rows, width});
    c.store(y.slice(0, row, rows), total, c.accumulates(TERN_MOE_COMBINE_Y));
    c.rewind(mark);
  }
}

void compose_backward(Composer& c) {
  Algebra algebra(c);
  const View dy = c.arg(TERN_MOE_COMBINE_BACKWARD_DY), places = c.arg(TERN_MOE_COMBINE_BACKWARD_PLACES);
  const View weights = c.arg(TERN_MOE_COMBINE_BACKWARD_WEIGHTS), dx = c.arg(TERN_MOE_COMBINE_BACKWARD_DX);
  const std::int64_t top_k = places.dim(1), choices = places.elements(), width = dy.dim(1);
  if (choices == 0) return;
  const View choice = algebra.sort(places.reshaped({choices}), false).places;  // of each row of x, its choice
  const View row_of = algebra.floor_divide(choice, top_k);
  const View flat_dx = dx.contiguous() ? dx.reshaped({choices, width}) : c.temp(dx.dtype, {choices, width});
  View factors;
  if (weights.present()) {
    factors = algebra.take_rows(c.dense(weights).reshaped({choices}), choice).reshaped({choices, 1});
  }
  const std::int64_t most = std::max<std::int64_t>(1, kPanel / std::max<std::int64_t>(1, width));
  for (std::int64_t row = 0; row < choices; row += most) {
    const std::int64_t mark = c.mark(), rows = std::min(most, choices - row);
    const View part = c.f32(algebra.take_rows(dy, row_of.slice(0, row, rows)));
    c.copy(flat_dx.slice(0, row, rows), factors.present() ? algebra.mul(part, factors.slice(0, row, rows)) : part);
    c.rewind(mark);
  }
  if (!dx.contiguous()) c.copy(dx, flat_dx.reshaped({dx.dim(0), top_k, width}));
  if (!c.present(TERN_MOE_COMBINE_BACKWARD_DWEIGHTS)) return;
  const View x = c.dense(c.arg(TERN_MOE_COMBINE_BACKWARD_X)), dweights = c.arg(TERN_MOE_COMBINE_BACKWARD_DWEIGHTS);
  const View flat = x.reshaped({choices, width});
  const std::int64_t panel = panel_rows(places, width);
  for (std::int64_t row = 0; row < dy.dim(0); row += panel) {
    const std::int64_t mark = c.mark(), rows = std::min(panel, dy.dim(0) - row);
    const View terms = taken(algebra, flat, places.slice(0, row, rows));
    algebra.mul(terms, c.f32(dy.slice(0, row, rows)).unsqueezed(1), terms);
    c.copy(dweights.slice(0, row, rows), algebra.sum(terms, 2).reshaped({rows, top_k}));
    c.rewind(mark);
  }
}

constexpr KernelEntry kEntries[] = {{TERN_OP_MOE_COMBINE, "gather", compose, true},
                                    {TERN_OP_MOE_COMBINE_BACKWARD, "gather", compose_backward, true}};

}  // namespace

KernelList moe_combine_kernels() { return kEntries; }

}  // namespace tern::npu
