// Weights whose codes, scales and zero points are tensors of their own, as the planes that devices take them in
// (tern_packing): one tensor's, or runs of rows of several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/logical_tensors.h"
#include "models/stored_tensors.h"
#include "ops/tensor_desc.h"

namespace tern::models {

// How the weight that the runs make up is described to a device; absent where planes can't say it: no formula of
// ops/ref/packing.h is theirs, a group of the file spans two runs, or each tensor has something of its own that a
// weight has once (shift and levels of double quantised scales, an order of inputs).
[[nodiscard]] TensorDesc joined_desc(std::span<const checkpoint::LogicalTensor* const> tensors,
                                     std::span<const RowRun> runs);
// Its planes, one after the other. Inputs of GPTQ in another order (desc_act) come sorted by their groups, and a plane
// says where each is. What the file has by outputs (compressed-tensors' packed int, AWQ's gemv), and int8 with zero
// points, comes as GPTQ's packing has it: the same codes, turned.
[[nodiscard]] std::vector<std::byte> joined_planes(std::span<const checkpoint::LogicalTensor* const> tensors,
                                                   std::span<const RowRun> runs);

}  // namespace tern::models
