// Every kernel of this backend: one line an op. Where an op has several, the preferred one comes first in its own list.
#include "backends/cpu/kernels.h"

#include <vector>

namespace tern::cpu {

std::span<const KernelEntry* const> kernel_entries() {
  static const std::vector<const KernelEntry*> all = [] {
    std::vector<const KernelEntry*> entries;
    for (const auto& list : {
             KernelList{},
         }) {
      for (const KernelEntry& entry : list) entries.push_back(&entry);
    }
    return entries;
  }();
  return all;
}

}  // namespace tern::cpu
