// The choice among several kernels of an op, by their time.
#pragma once

#include <memory>
#include <span>

#include "backends/cpu/runtime.h"

namespace tern::cpu {

// A kernel's plan of the desc, its own copy of everything that the desc points at.
[[nodiscard]] std::shared_ptr<Plan> make_plan(Device& device, const tern_op_desc& desc, const KernelEntry& kernel);

// The first of `candidates`, unless a later one needs at least 5 % less of one thread's time on zeros of the planned
// shapes, with as many valid entries as `typical_counts` says of each slot (0: all). An op whose arguments are too
// large to make such zeros, or that takes the first candidate more than 50 ms, is not measured further. Equal descs get
// equal answers for the life of the process, so that planning twice does not change bits.
[[nodiscard]] const KernelEntry& fastest(Device& device, const tern_op_desc& desc,
                                         std::span<const KernelEntry* const> candidates,
                                         std::span<const std::int64_t, TERN_MAX_COUNTS> typical_counts);

}  // namespace tern::cpu
