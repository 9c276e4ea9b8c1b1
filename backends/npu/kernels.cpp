// Every kernel of this backend. Where an op has several, the preferred one comes first in its own list.
#include <vector>

#include "backends/npu/kernel.h"

namespace tern::npu {

#define TERN_NPU_KERNELS(name) KernelList name##_kernels();
#include <npu_kernel_list.inc>  // made from the files that are here
#undef TERN_NPU_KERNELS

std::span<const KernelEntry* const> kernel_entries() {
  static const std::vector<const KernelEntry*> all = [] {
    std::vector<const KernelEntry*> entries;
    for (const KernelList list : {
#define TERN_NPU_KERNELS(name) name##_kernels(),
#include <npu_kernel_list.inc>
#undef TERN_NPU_KERNELS
         }) {
      for (const KernelEntry& entry : list) entries.push_back(&entry);
    }
    return entries;
  }();
  return all;
}

}  // namespace tern::npu
