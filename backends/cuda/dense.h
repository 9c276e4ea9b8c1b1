// Elementwise work on tensors of one shape: a walk whose threads take 8 neighbouring elements, by 16-byte loads
// wherever a tensor lies so.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "backends/cuda/walk.h"

namespace tern::cuda {

// The struct Dense of cu/dense.cuh.
struct Dense {
  Walk walk;
  std::int32_t vectors = 0;  // bit t: the t-th tensor's units begin at 16 bytes and its elements are neighbours
  std::int32_t quads = 0;    // 1: a warp's 256 elements are shared out by fours, not by eights
  std::int32_t same = -1;    // the dtype of all present tensors, -1: they differ
  std::int32_t reserved = 0;
};

inline constexpr std::int64_t kDenseThreads = 256;

// Absent tensors (rank 0) have strides of 0, and their bit is set.
[[nodiscard]] Dense make_dense(std::initializer_list<const TensorView*> views);

}  // namespace tern::cuda
