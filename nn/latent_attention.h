// Multi-head latent attention: keys and values of all heads are made from one small vector a token, which alone is kept
// (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1).
#pragma once

#include <string>

#include "nn/context.h"
#include "nn/indexer.h"
#include "nn/rope.h"

namespace tern::nn {

struct LatentAttentionConfig {
  std::int64_t heads = 0;
  std::int64_t q_rank = 0;      // of the queries' own latent vector; 0: they have none
  std::int64_t kv_rank = 0;     // of that of keys and values
  std::int64_t plain_dim = 0;   // features of a head of queries or keys that no position turns
  std::int64_t turned_dim = 0;  // and that one turns, which all heads of keys share
  std::int64_t value_dim = 0;
  double scale = 0.0;  // of the scores
  double eps = 1e-6;   // of the norms of latent vectors
  // Kinds of the queries' rope tables.
  std::string query_rope = kDefaultRope;
  std::string plain_query_rope;  // of the features that no position turns, which may grow with it; empty: nothing
  // Chooses the keys that are seen, by `indexer` under the module; only where queries have a latent vector.
  IndexerConfig indexer = {};
};

// What the layer keeps of a token: its latent vector after the norm, then the shared turned features.
[[nodiscard]] constexpr std::int64_t latent_width(const LatentAttentionConfig& config) {
  return config.kv_rank + config.turned_dim;
}

// Self-attention of x [tokens, hidden] -> [tokens, hidden]: q_proj (or q_a_proj, q_a_layernorm and q_b_proj),
// kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj and o_proj under `module`. Positions turn neighbours as a pair.
// Without a cache, keys and values of each head are made from the latent vectors. With a paged cache the vectors are
// written first; queries then go through kv_b_proj's rows for keys, and what attention gives through those for values
// (section 2.1.2, "absorbed"), so that heads read the vectors themselves.
Value latent_attention(Context& context, const std::string& module, const LatentAttentionConfig& config,
                       const TokenInputs& inputs, Value x);

}  // namespace tern::nn
