// moe_route: which experts each row is given to, and how much each of them counts (Shazeer et al., "Outrageously Large
// Neural Networks", 2017; groups and bias: DeepSeek-AI, "DeepSeek-V3", 2024).
//
// Shapes: logits [rows, experts], bias [experts] f32 or absent, weights [rows, top_k] f32, experts [rows, top_k] i32.
//   top_k and top_groups experts, group_top of each, are there; groups divide the experts.
// Formula: s = softmax(logits) over the experts, or sigmoid(logits). c = s + bias decides: of the groups, the
// top_groups
//   with the largest sum of their group_top largest c; within those, the top_k largest c, the largest first. Equal ones
//   go by rising number, and one that is NaN comes last. weights = scale s[experts], divided by the sum of s[experts]
//   where `normalise`.
// Dtypes: logits float, all else fp32. Aliasing: none. Deterministic and row invariant.
// Backward: dlogits by moe_route_backward; the choice and the bias have no gradient. Decomposition: none.
// Tolerance: the choice is exact, but where fp32 cannot tell which c is larger; weights u32 (growth(experts) + 8 + the
//   largest logit - logit) |w|, without the logits for a sigmoid.
//
// moe_route_backward: with w the weights of the chosen before the scale, dw the gradient of the scaled ones:
//   softmax: dlogits[j] = scale p_j ([j chosen] dw_j - sum of dw p over the chosen); normalised: as softmax over the
//   chosen alone, 0 elsewhere; sigmoid: dlogits[j] = scale s_j (1 - s_j) dw_j; normalised: (dw_j - sum of dw w) / sum
//   of s in place of dw_j.
// Tolerance: u32 (growth(experts) + 8 + the largest logit - logit) times the sum of the absolute terms.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct MoeRouteOptions {
  std::int64_t top_k = 1;
  bool sigmoid = false;
  bool normalise = false;
  float scale = 1.0F;
  std::int32_t groups = 1;
  std::int32_t top_groups = 1;
  std::int32_t group_top = 1;
  Value bias;  // [experts]; may be absent
  std::uint32_t needs = 0;
};
struct MoeRoute {
  Value weights;  // [rows, top_k] f32
  Value experts;  // [rows, top_k] i32
};
[[nodiscard]] MoeRoute moe_route(Emitter& emitter, Value logits, const MoeRouteOptions& options);

}  // namespace tern::ops
