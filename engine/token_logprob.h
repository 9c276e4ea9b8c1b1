// Tokens beside their log-probabilities under the model's distribution, before temperature and filters, unless the
// request asks for those behind them (processed_logprobs.h).
#pragma once

#include <cstdint>
#include <vector>

namespace tern::engine {

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;
};

// A token of a prompt, given those before it.
struct PromptLogprob : TokenLogprob {
  std::vector<TokenLogprob> top;  // the likeliest tokens in its place, the first first
};

}  // namespace tern::engine
