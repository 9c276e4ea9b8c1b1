// What each op's file gives: KernelList <name>_kernels(), which the build finds.
#pragma once

#include "backends/cpu/kernel.h"

namespace tern::cpu {

using KernelList = std::span<const KernelEntry>;
KernelList matmul_kernels();  // what they take of a product's arguments, oneDNN's take too

}  // namespace tern::cpu
