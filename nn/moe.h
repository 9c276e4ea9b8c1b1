// Mixtures of experts in place of a feed-forward layer (Shazeer et al., "Outrageously Large Neural Networks", 2017;
// Jiang et al., "Mixtral of Experts", 2024).
#pragma once

#include <string>
#include <vector>

#include "nn/context.h"

namespace tern::nn {

struct MoeConfig {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;   // experts that each token goes to
  bool sigmoid = false;     // scores: softmax over the experts, or the sigmoid of each
  bool normalise = false;   // a token's weights add up to `scale`
  float scale = 1.0F;       // of the weights
  std::int32_t groups = 1;  // of experts, of which a token takes the best `top_groups` by their `group_top` best
  std::int32_t top_groups = 1;
  std::int32_t group_top = 1;
  tern_act act = TERN_ACT_SILU;
  float limit = 0.0F;           // of gate and up (ops/act_mul.h); 0: none
  float up_offset = 0.0F;       // to up
  std::string router = "gate";  // its name
  std::string shared;           // the name of one more expert that every token goes to; empty: there is none
  bool shared_gated = false;    // its output times a sigmoid of its own
  std::string expert_scale;     // the name of factors [experts] of the experts' outputs; empty: there are none
  bool balanced = false;        // training may keep the experts evenly used (Router below)
  bool weights_inputs = false;  // a token's weights are those of what its experts read, not of what they give
};

// What a model gives beside x.
struct MoeExtras {
  Value added;   // [tokens, hidden]: to the sum; only without a shared expert
  Value routed;  // [tokens, hidden]: what the router reads; absent: x
};

// Sum of weight * down(act(gate(x)) * up(x)) over each token's experts: [tokens, hidden] -> [tokens, hidden]. Under
// `module`: "<router>.weight" [experts, hidden] (the router, whose product is fp32, so that rounding chooses no
// expert),
// "<router>.bias" and "<router>.e_score_correction_bias" [experts] where the model has them,
// "experts.{gate_proj,up_proj}.weight" [experts, inner, hidden], "experts.down_proj.weight" [experts, hidden, inner],
// all experts in one tensor, each with a ".bias" [experts, out] where the model has one; and the gated mlp `shared`
// with
// "<shared>_gate.weight" [1, hidden]. Where `weights_inputs`: sum of down(act(gate(weight x)) * up(weight x)).
Value moe(Context& context, const std::string& module, const MoeConfig& config, Value x, const MoeExtras& extras = {});

// What the routers of `balanced` mixtures gave, in the order in which the model is written.
struct Router {
  Value logits;   // [tokens, experts] f32
  Value offsets;  // [experts + 1] i32: where each expert's rows begin, of all tokens' choices in order of experts
};
[[nodiscard]] std::vector<Router> routers(const Context& context);

}  // namespace tern::nn
