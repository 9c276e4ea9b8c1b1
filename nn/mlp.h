// Feed-forward layers: gated (Shazeer, "GLU Variants Improve Transformer", 2020), and the plain one before them.
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

struct MlpParts {
  std::string gate = "gate_proj";
  std::string up = "up_proj";
  std::string down = "down_proj";
  double gate_scale = 1.0;  // of what gate gives
};
// down(act(gate_scale gate(x)) * up(x)): [tokens, hidden] -> [tokens, hidden], with the linear layers of those names
// under `module`.
Value gated_mlp(Context& context, const std::string& module, Value x, tern_act act = TERN_ACT_SILU,
                const MlpParts& parts = {});

struct FusedMlpParts {
  std::string gate_up = "gate_up_proj";
  std::string down = "down_proj";
  tern_act act = TERN_ACT_SILU;
};
// The same where gate and up are the halves of one linear layer.
Value fused_gated_mlp(Context& context, const std::string& module, Value x, const FusedMlpParts& parts = {});

// down(act(up(x))), of the linear layers of those whole names.
Value plain_mlp(Context& context, const std::string& up, const std::string& down, Value x, tern_act act);

}  // namespace tern::nn
