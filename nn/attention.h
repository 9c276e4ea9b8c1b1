// Multi-head attention with grouped key-value heads over packed sequences or a paged cache.
#pragma once

#include <string>

#include "nn/context.h"
#include "nn/rope.h"

namespace tern::nn {

// What queries and keys are normed over: each head, or all of a token's together.
// `turned` has no weights, and is of each head once positions have turned it.
enum class QkNorm { none, head, whole, turned };

// What its parts are called, where a model doesn't follow Llama and Qwen3.
struct AttentionNames {
  std::string q_norm = "q_norm";
  std::string k_norm = "k_norm";
  std::string output = "o_proj";
  std::string q = "q_proj";
  std::string k = "k_proj";
  std::string v = "v_proj";
  std::string qkv = "qkv_proj";
};

struct AttentionConfig {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool causal = true;             // false: a token sees all of its sequence, and nothing is kept in a cache
  std::int64_t window = 0;        // a token sees itself and window - 1 before it; 0: all before it
  std::int64_t window_right = 0;  // where not causal: itself and window_right - 1 after it; 0: all after it
  std::int64_t chunk = 0;  // a token sees those of its own chunk alone, positions [n chunk, (n + 1) chunk); 0: all
  double scale = 0.0;      // of the scores; 0: 1 / sqrt(head_dim)
  float softcap = 0.0F;    // bound of the scaled scores' size; 0: none
  std::string rope = kDefaultRope;  // kind of its rope table; empty: nothing turns
  std::string query_rope;           // the queries' own; empty: the same
  bool fused_qkv = false;           // q, k and v are parts of one linear layer, qkv_proj
  bool is_gated = false;            // q_proj gives each head's query and then a gate, whose sigmoid its output is times
  bool rope_interleaved = false;    // pairs that turn are neighbours
  QkNorm qk_norm = QkNorm::none;    // norms of queries and keys before the rotation
  double eps = 1e-6;                // of those
  float norm_offset = 0.0F;         // to their weights
  bool has_sinks = false;           // each head has one more logit without a value, `sinks` [heads]
  bool value_norm = false;          // values are normed over each head, without a weight
  bool keys_are_values = false;     // there is no v_proj: values are what k_proj gives
  bool is_shared = false;           // later layers read its keys and values, too
  std::string shares_with;          // the module whose keys and values it reads; empty: its own
  AttentionNames names = {};
};

// Self-attention of x [tokens, hidden] -> [tokens, hidden]: q_proj, k_proj, v_proj (or qkv_proj) and o_proj under
// `module`, each with a bias where the model has one; q_proj is twice as tall with gates. With a paged cache the
// layer's keys and values are written first, then read through the block table. A layer that shares another's has
// q_proj and o_proj alone, and no cache.
Value attention(Context& context, const std::string& module, const AttentionConfig& config, const TokenInputs& inputs,
                Value x);

}  // namespace tern::nn
