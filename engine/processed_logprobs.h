// Log-probabilities under what a token was drawn from: after penalties, biases, masks, temperature and filters, as
// vLLM's logprobs_mode "processed_logprobs" tells them. Trainers weigh answers by them.
#pragma once

#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "engine/token_logprob.h"

namespace tern::engine {

// Whether they differ from those of the logits as they are. Temperature 0 draws from these, which filters don't change.
[[nodiscard]] bool processes_logits(const ScheduledSequence& part);

struct ProcessedLogprobs {
  float logprob = 0;               // of the drawn token
  std::vector<TokenLogprob> tops;  // the likeliest tokens of those that could be drawn, the likeliest first
};
// Of a row of logits [vocab], whose token was drawn behind all of the part's but the last `behind`: what ops/sample.h
// says, in fp64. At most `tops` likeliest tokens.
[[nodiscard]] ProcessedLogprobs processed_logprobs(const ScheduledSequence& part, std::int64_t behind,
                                                   std::span<const float> logits, std::int32_t drawn,
                                                   std::int64_t tops);

}  // namespace tern::engine
