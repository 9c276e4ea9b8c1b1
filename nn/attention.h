// Multi-head attention with grouped key-value heads over packed sequences or a paged cache.
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

struct AttentionConfig {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // 0: none
};

// Self-attention of x [tokens, hidden] -> [tokens, hidden]: q, k, v and o projections under `module`, rotary positions
// on q and k. With a paged cache the layer's keys and values are written first, then read through the block table.
Value attention(Context& context, const std::string& module, const AttentionConfig& config, const TokenInputs& inputs,
                Value x);

}  // namespace tern::nn
