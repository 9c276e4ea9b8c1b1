// kv_write: stores this step's keys and values: k_cache[slot] = k[row], v_cache[slot] = v[row]. What else is kept by
//   block or changes a few entries a step, such as token ids and block tables, is stored in the same way.
//
// Shapes: k [rows, kv_heads, head_dim], v [rows, kv_heads, value_dim], slots [rows] i32: block * block_size + offset;
//   k_cache [blocks, block_size, kv_heads, head_dim], v_cache [..., value_dim], read and written in place. v and
//   v_cache are absent together: a latent cache has one plane.
// Block 0 is nobody's: rows of padding have their slots there. Any number of rows may share a slot of it, and what it
//   holds afterwards is unspecified, but finite where the rows and the cache were. A device may skip such rows.
// Elsewhere no two rows share a slot. A slot below 0 or beyond the cache is the caller's fault.
// Floats in a cache of i8 or f8_e4m3 become codes over a scale for each row of a head, which k_scale and v_scale
//   [blocks, block_size, kv_heads] f32 keep: scale[slot, head], and cache[slot, head] = x / scale rounded once to the
//   nearest code, of two as near the even one. With a = max |x| of the row of the head:
//     i8: scale = max(a / 127, 2^-126), the quotients those of fp32
//     f8_e4m3: scale = the least power of two from 2^-126 on with a <= 448 scale, over which x loses no bit
//   Where an x isn't finite the scale is NaN, and the codes are 0. A block has all that its keys and values are.
// Dtypes: float, rounded once to the cache's dtype; or any other, the cache's too, copied. Dynamic: rows; the host
// gives
//   those beyond the count slots in block 0 too, so that a device may store them.
// Aliasing: none beyond the states. Determinism: always the same bits. Everything else in the caches stays.
// Backward: none. Decomposition: none. Tolerance: none: exactly the rounded or copied value.
#pragma once

#include "ops/attention_paged.h"

namespace tern::ops {

// Gives the caches' next versions; v and cache.v may be absent, and scales are where has_scales() says.
[[nodiscard]] KvCache kv_write(Emitter& emitter, Value k, Value v, Value slots, const KvCache& cache,
                               std::uint32_t needs = 0);

}  // namespace tern::ops
