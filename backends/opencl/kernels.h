// What each op's file gives: KernelList <name>_kernels(), which the build finds.
#pragma once

#include "backends/opencl/check.h"
#include "backends/opencl/kernel.h"
#include "backends/opencl/walk.h"

namespace tern::opencl {

using KernelList = std::span<const KernelEntry>;

}  // namespace tern::opencl
