#pragma once

#include "tests/fakes/cuda/driver/state.h"

namespace tern::cuda::fake {

// Makes the node a launch of the function, with its own copy of the arguments. An error where CUDA has one.
CUresult set_launch(CUgraphNode_st& node, CUfunction function, const emulated::Grid& grid, void** params);
void run_kernel_node(const CUgraphNode_st& node);

}  // namespace tern::cuda::fake
