// kv_write: stores this step's keys and values: k_cache[slot] = k[row], v_cache[slot] = v[row].
//
// Shapes: k [rows, kv_heads, head_dim], v [rows, kv_heads, value_dim], slots [rows] i32: block * block_size + offset,
// -1
//   skips the row; k_cache [blocks, block_size, kv_heads, head_dim], v_cache [..., value_dim], read and written in
//   place. No two rows share a slot; a slot beyond the cache is the caller's fault.
// Dtypes: float; rounded once to the cache's dtype. Dynamic: rows.
// Aliasing: none beyond the states. Determinism: always the same bits. Everything else in the caches stays.
// Backward: none. Decomposition: none. Tolerance: none: exactly the rounded value.
#pragma once

#include "ops/attention_paged.h"

namespace tern::ops {

// Gives the caches' next versions.
[[nodiscard]] KvCache kv_write(Emitter& emitter, Value k, Value v, Value slots, const KvCache& cache,
                               std::uint32_t needs = 0);

}  // namespace tern::ops
