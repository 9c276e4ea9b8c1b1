// The gated feed-forward layer (Shazeer, "GLU Variants Improve Transformer", 2020).
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

// down(act(gate(x)) * up(x)): [tokens, hidden] -> [tokens, hidden], with the linear layers gate_proj, up_proj and
// down_proj under `module`.
Value gated_mlp(Context& context, const std::string& module, Value x, tern_act act = TERN_ACT_SILU);

// The same where gate and up are the halves of one linear layer, gate_up_proj.
Value fused_gated_mlp(Context& context, const std::string& module, Value x, tern_act act = TERN_ACT_SILU);

}  // namespace tern::nn
