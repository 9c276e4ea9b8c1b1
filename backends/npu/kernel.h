// What a kernel of this backend is. A file <op>.cpp defines `KernelList <op>_kernels()`, which the build finds.
#pragma once

#include <span>

#include "backends/npu/composer.h"

namespace tern::npu {

struct KernelEntry {
  std::uint32_t op;  // TERN_OP_*
  const char* name;  // of the choice; unique within an op
  void (*compose)(Composer& composer);
  // Each row is computed from itself alone and in one way: elements, copies, gathers. Others need CANN's
  // batch-invariant kernels where a row's bits may not depend on the other rows.
  bool row_invariant = false;
};
using KernelList = std::span<const KernelEntry>;

// Every kernel, the preferred ones of an op first.
[[nodiscard]] std::span<const KernelEntry* const> kernel_entries();

}  // namespace tern::npu
