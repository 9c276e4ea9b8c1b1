// shard_index: y[r] = ids[r] - first where first <= ids[r] < first + count, else -1: ids of a vocabulary as one shard
// of it counts them (Shoeybi et al., "Megatron-LM", 2019). What reads a shard passes -1 over, or makes zeros of it.
//
// Shapes: ids [rows] i32, y [rows] i32.
// Aliasing: none. Determinism: exact. Row invariant.
// Backward: none: integers have none. Decomposition: none. Tolerance: exact.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

[[nodiscard]] Value shard_index(Emitter& emitter, Value ids, std::int64_t first, std::int64_t count,
                                std::uint32_t needs = 0);

}  // namespace tern::ops
