// Going through tensors of one shape and any strides, by work-items that each take some neighbouring elements.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "backends/cuda/kernel.h"

namespace tern::cuda {

inline constexpr int kWalkTensors = 6;
inline constexpr int kWalkOuter = TERN_MAX_RANK - 1;
inline constexpr std::int64_t kWalkChunk = 8;

// The struct Walk of cu/common.cuh: neighbouring dimensions are joined where they are contiguous in all tensors. The
// last dimension is cut into chunks; a unit is one chunk of one row, and the work of one work-item.
struct Walk {
  std::int64_t units = 0;
  std::int64_t inner = 1;   // elements of a row
  std::int64_t chunk = 1;   // of a unit, but the last of a row
  std::int64_t chunks = 1;  // of a row
  std::int32_t rank = 0;    // of what is outside of a row
  std::int32_t dense = 1;   // every inner stride is 1
  std::int64_t shape[kWalkOuter] = {};
  std::int64_t inner_stride[kWalkTensors] = {};
  std::int64_t stride[kWalkTensors][kWalkOuter] = {};
};

// Absent tensors have strides of 0. A unit is 8 elements at most.
[[nodiscard]] Walk make_walk(std::initializer_list<const TensorView*> views);

}  // namespace tern::cuda
