#include "backends/npu/algebra.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

// By a stable sort of the choices: equal experts keep the order of (row, choice).
void compose(Composer& c) {
  Algebra algebra(c);
  const View x = c.arg(TERN_MOE_PERMUTE_X), experts = c.arg(TERN_MOE_PERMUTE_EXPERTS);
  const View y = c.arg(TERN_MOE_PERMUTE_Y), places = c.arg(TERN_MOE_PERMUTE_PLACES);
  const View offsets = c.arg(TERN_MOE_PERMUTE_OFFSETS);
  const std::int64_t top_k = experts.dim(1), choices = experts.elements();
  if (choices == 0) {
    c.zero(offsets);
    return;
  }
  const Algebra::Sorted sorted = algebra.sort(experts.reshaped({choices}), false);
  const View rows = algebra.floor_divide(sorted.places, top_k);
  if (y.contiguous()) {
    algebra.take_rows(x, rows, y.reshaped({choices, x.dim(1)}));
  } else {
    c.copy(y, algebra.take_rows(x, rows).reshaped({y.dim(0), top_k, x.dim(1)}));
  }
  const View inverse = algebra.sort(c.cast(sorted.places, ACL_INT32), false).places;
  c.copy(places, inverse.reshaped({experts.dim(0), top_k}));
  // An expert's rows begin behind all choices of smaller numbers.
  const View numbers = algebra.range(0, offsets.dim(0), ACL_INT32).reshaped({offsets.dim(0), 1});
  const View before = c.f32(algebra.less(sorted.values.reshaped({1, choices}), numbers));
  c.copy(offsets, algebra.sum(before, 1).reshaped({offsets.dim(0)}));
}

constexpr KernelEntry kEntries[] = {{TERN_OP_MOE_PERMUTE, "sort", compose, true}};

}  // namespace

KernelList moe_permute_kernels() { return kEntries; }

}  // namespace tern::npu
