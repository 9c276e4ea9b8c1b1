// What each op's file gives: KernelList <name>_kernels(), which the build finds.
#pragma once

#include "backends/cuda/check.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/walk.h"

namespace tern::cuda {

using KernelList = std::span<const KernelEntry>;

// Threads of a block that reduces: GROUP of cu/common.cuh.
inline constexpr std::int64_t kGroup = 128;

// The strides of a tensor, of 0 where it is absent.
template <std::size_t rank>
void take_strides(const TensorView& tensor, std::int64_t (&strides)[rank]) {
  for (std::size_t d = 0; d < rank; ++d) strides[d] = tensor.present() ? tensor.desc.strides[d] : 0;
}
[[nodiscard]] inline std::int64_t stride_of(const TensorView& tensor) {
  return tensor.present() ? tensor.stride(0) : 0;
}

}  // namespace tern::cuda
