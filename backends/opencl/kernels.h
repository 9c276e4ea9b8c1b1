// What each op's file gives: KernelList <name>_kernels(), which the build finds.
#pragma once

#include "backends/opencl/check.h"
#include "backends/opencl/kernel.h"
#include "backends/opencl/walk.h"

namespace tern::opencl {

using KernelList = std::span<const KernelEntry>;

// GROUP of cl/common.clh: work-items that reduce together.
[[nodiscard]] inline std::int64_t reducing_group(const Facts& facts) { return facts.cpu ? 1 : 128; }

}  // namespace tern::opencl
