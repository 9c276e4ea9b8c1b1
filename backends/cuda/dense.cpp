#include "backends/cuda/dense.h"

namespace tern::cuda {
namespace {

// Whether each unit of 8 elements begins at 16 bytes: a tensor's bytes an element divide 16.
bool begins_aligned(const Walk& walk, int t, const TensorView& view) {
  if (walk.inner_stride[t] != 1 || view.planes[0] % 16 != 0) return false;
  for (int d = 0; d < walk.rank; ++d) {
    if (walk.stride[t][d] % kWalkChunk != 0) return false;
  }
  return true;
}

}  // namespace

Dense make_dense(std::initializer_list<const TensorView*> views) {
  Dense dense{make_walk(views)};
  const Walk& walk = dense.walk;
  bool all = walk.rank == 0 || walk.inner % (32 * kWalkChunk) == 0;
  bool wide = false;  // fp32 somewhere: eights of it would be written by halves of sectors
  bool same = true;
  const TensorView* first = nullptr;
  int t = 0;
  for (const TensorView* view : views) {
    const bool aligned = !view->present() || begins_aligned(walk, t, *view);
    if (aligned) dense.vectors |= 1 << t;
    all = all && aligned;
    if (view->present() && first == nullptr) first = view;
    same = same && (!view->present() || view->dtype() == first->dtype());
    wide = wide || (view->present() && view->dtype() == TERN_F32);
    ++t;
  }
  dense.quads = all && wide ? 1 : 0;
  dense.same = same && first != nullptr ? first->dtype() : -1;
  return dense;
}

}  // namespace tern::cuda
