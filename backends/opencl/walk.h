// Going through tensors of one shape and any strides, by work-items that each take some neighbouring elements.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "backends/opencl/kernel.h"

namespace tern::opencl {

inline constexpr int kWalkTensors = 6;
inline constexpr int kWalkOuter = TERN_MAX_RANK - 1;

// The struct Walk of cl/common.clh: neighbouring dimensions are joined where they are contiguous in all tensors. The
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

// Absent tensors have strides of 0. On a GPU a unit is 4 elements, on a CPU up to 4,096.
[[nodiscard]] Walk make_walk(const Facts& facts, std::initializer_list<const TensorView*> views);

}  // namespace tern::opencl
