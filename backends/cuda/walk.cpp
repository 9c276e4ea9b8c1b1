#include "backends/cuda/walk.h"

#include <algorithm>

#include "backends/cuda/check.h"

namespace tern::cuda {
namespace {

// Dimensions of all tensors after joining; the last is the row.
struct Joined {
  int rank = 0;
  std::int64_t shape[TERN_MAX_RANK] = {};
  std::int64_t strides[kWalkTensors][TERN_MAX_RANK] = {};
};

Joined join(std::initializer_list<const TensorView*> views, const TensorView& lead) {
  Joined joined;
  for (int d = 0; d < lead.desc.rank; ++d) {
    const std::int64_t size = lead.dim(d);
    if (size == 1) continue;
    const int last = joined.rank - 1;
    bool joins = joined.rank > 0;
    int t = 0;
    for (const TensorView* view : views) {
      const std::int64_t stride = view->present() ? view->stride(d) : 0;
      joins = joins && joined.strides[t++][last] == stride * size;
    }
    const int at = joins ? last : joined.rank++;
    joined.shape[at] = joins ? joined.shape[at] * size : size;
    t = 0;
    for (const TensorView* view : views) joined.strides[t++][at] = view->present() ? view->stride(d) : 0;
  }
  return joined;
}

}  // namespace

Walk make_walk(std::initializer_list<const TensorView*> views) {
  Walk walk;
  const TensorView* lead = nullptr;
  for (const auto* view : views) {
    if (lead == nullptr && view->present()) lead = view;
  }
  if (lead == nullptr || lead->elements() == 0) return walk;
  const Joined joined = join(views, *lead);
  const int tensors = static_cast<int>(views.size());
  const int row = joined.rank - 1;
  walk.rank = std::max(row, 0);
  walk.inner = row >= 0 ? joined.shape[row] : 1;
  std::int64_t rows = 1;
  for (int d = 0; d < walk.rank; ++d) {
    walk.shape[d] = joined.shape[d];
    rows *= joined.shape[d];
  }
  for (int t = 0; t < tensors; ++t) {
    walk.inner_stride[t] = row >= 0 ? joined.strides[t][row] : 1;
    const bool present = (*(views.begin() + t))->present();
    if (present && walk.inner_stride[t] != 1) walk.dense = 0;
    for (int d = 0; d < walk.rank; ++d) walk.stride[t][d] = joined.strides[t][d];
  }
  walk.chunk = std::min(kWalkChunk, walk.inner);
  walk.chunks = parts_of(walk.inner, walk.chunk);
  walk.units = rows * walk.chunks;
  return walk;
}

}  // namespace tern::cuda
