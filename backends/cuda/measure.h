// Which of several kernels is the fastest for a desc: each is run once, on zeros.
#pragma once

#include <span>
#include <vector>

#include "backends/cuda/runtime.h"

namespace tern::cuda {

// The fastest at the typical counts; the first where measuring isn't possible or isn't worth it. An answer serves all
// descs alike in this process; the host remembers it beyond.
[[nodiscard]] const KernelEntry& fastest(Device& device, const tern_op_desc& desc,
                                         std::span<const KernelEntry* const> candidates,
                                         std::span<const std::int64_t, TERN_MAX_COUNTS> typical_counts);

}  // namespace tern::cuda
