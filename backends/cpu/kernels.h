// The lists of kernels that each op's file gives.
#pragma once

#include "backends/cpu/kernel.h"

namespace tern::cpu {

using KernelList = std::span<const KernelEntry>;

}  // namespace tern::cpu
