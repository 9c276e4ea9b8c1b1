// Layers of vision towers: attention over the patches of an image, both ways, and MLPs without a gate.
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

struct VisionAttentionConfig {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::string fused;  // one linear layer for queries, keys and values, "qkv"; empty: q_proj, k_proj, v_proj
  std::string output = "proj";
  bool qk_norm = false;  // q_norm and k_norm over all features of a token
  double eps = 1e-6;     // of those
};

// Which patches see each other, and where they stand.
struct VisionSequences {
  Value cu_seqlens;  // [sequences + 1] i32
  std::int64_t max_seqlen = 0;
  Value rows;  // [patches] i32: of the tables below; absent: nothing turns
  Value cos;   // [patches, head_dim / 2] f32
  Value sin;
};

// x [patches, hidden] -> [patches, hidden]; each patch sees all of its sequence.
Value vision_attention(Context& context, const std::string& module, const VisionAttentionConfig& config,
                       const VisionSequences& sequences, Value x);

// second(act(first(x))): linear layers of those names under `module`.
struct VisionMlpConfig {
  const char* first = "fc1";
  const char* second = "fc2";
  tern_act act = TERN_ACT_GELU_TANH;
};
Value vision_mlp(Context& context, const std::string& module, const VisionMlpConfig& config, Value x);

// x times the vector of that name, feature by feature.
Value layer_scale(Context& context, const std::string& weight, Value x);
// x [rows, width] seen as [rows / merged, merged * width], whose actual rows are counted by `slot`.
Value merged_rows(Context& context, Value x, std::int64_t merged, int slot);

}  // namespace tern::nn
