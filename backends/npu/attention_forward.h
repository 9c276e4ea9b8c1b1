// Attention's kernels: CANN's own, and the step that contiguous and paged keys share.
#pragma once

#include "backends/npu/attention_shape.h"
#include "tern/accel_ops.h"

namespace tern::npu {

// What the rows of one sequence attend to, and where the results go: tensors of the whole call, but for keys and
// values.
struct AttentionSides {
  View q;             // [q_rows, heads, head_dim]
  View mask;          // [q_rows, mask_keys]; may be absent
  View out;           // [q_rows, heads, value_dim]
  View lse;           // [q_rows, heads]; may be absent
  View keys, values;  // [keys, kv_heads, width] fp32, from the sequence's key `first_key` on
  std::int64_t first_key = 0;
  std::int64_t first_row = 0;  // the sequence's, in the call
};
// One tile of the sequence. A tile without keys is left as it is.
void attend(Algebra& algebra, const tern_attention_attrs& attrs, const AttentionSides& sides, const Tile& tile);

// Whole kernels of attention, attention_backward and attention_paged.
void compose_fused_attention(Composer& composer);
void compose_fused_attention_backward(Composer& composer);
void compose_fused_paged_attention(Composer& composer);
// The mask that CANN's sparse modes 2 to 4 want, whatever the lengths: [2048, 2048], 1 above the diagonal.
[[nodiscard]] View triangle(Composer& composer);

}  // namespace tern::npu
