// The lightning indexer: a few small heads that choose which keys attention reads (DeepSeek-AI, "DeepSeek-V3.2: Pushing
// the Frontier of Open Large Language Models", 2025).
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

struct IndexerConfig {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t topk = 0;  // keys that a token is shown at most; 0: there is no indexer
  double eps = 1e-6;      // of the keys' layer norm
};

// What it reads of each token.
struct IndexerInputs {
  Value x;    // [tokens, hidden]
  Value low;  // [tokens, q_rank]: the latent vector that attention's queries are made of
};

// Which keys each token sees, [tokens, keys] bool, as ops/index_topk_mask.h has it, by wq_b, wk, k_norm and
// weights_proj under `module`. Positions turn the first features of queries and keys, as halves. With a paged cache the
// indexer's keys are written into one of its own. No gradient goes through the choice.
Value chosen_keys(Context& context, const std::string& module, const IndexerConfig& config, const TokenInputs& inputs,
                  const IndexerInputs& of);

}  // namespace tern::nn
