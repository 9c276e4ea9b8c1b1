// Attention's kernels: CANN's own, and the step that contiguous and paged keys share.
#pragma once

#include "backends/npu/algebra.h"
#include "tern/accel_ops.h"

namespace tern::npu {

// Rows of one sequence and the keys that they may see, all fp32 but out.
struct AttentionTile {
  View q;               // [kv_heads, group, rows, head_dim]
  View k;               // [kv_heads, 1, keys, head_dim]
  View v;               // [kv_heads, 1, keys, value_dim]
  View hidden;          // [rows, keys] bool; absent: all is seen
  View out;             // [kv_heads, group, rows, value_dim]
  View lse;             // [kv_heads, group, rows, 1]; may be absent
  bool masked = false;  // a mask may leave a row nothing
};
void attend(Algebra& algebra, const tern_attention_attrs& attrs, const AttentionTile& tile);

// Whole kernels of attention, attention_backward and attention_paged.
void compose_fused_attention(Composer& composer);
void compose_fused_attention_backward(Composer& composer);
void compose_fused_paged_attention(Composer& composer);
// The mask that CANN's sparse modes 2 to 4 want, whatever the lengths: [2048, 2048], 1 above the diagonal.
[[nodiscard]] View triangle(Composer& composer);

}  // namespace tern::npu
