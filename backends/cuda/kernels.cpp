// Every kernel of this backend. Where an op has several, the preferred one comes first in its own list.
#include "backends/cuda/kernels.h"

#include <vector>

namespace tern::cuda {

#define TERN_CUDA_KERNELS(name) KernelList name##_kernels();
#include <cuda_kernel_list.inc>  // made from the files that are here
#undef TERN_CUDA_KERNELS

std::span<const KernelEntry* const> kernel_entries() {
  static const std::vector<const KernelEntry*> all = [] {
    std::vector<const KernelEntry*> entries;
    for (const auto& list : {
#define TERN_CUDA_KERNELS(name) name##_kernels(),
#include <cuda_kernel_list.inc>
#undef TERN_CUDA_KERNELS
         }) {
      for (const KernelEntry& entry : list) entries.push_back(&entry);
    }
    return entries;
  }();
  return all;
}

}  // namespace tern::cuda
