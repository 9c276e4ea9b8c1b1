#include "engine/sampling_params.h"

#include <cmath>

#include "base/strings.h"

namespace tern::engine {

std::optional<Error> impossible_sampling(const SamplingParams& params, std::int64_t vocab_size,
                                         std::int64_t most_tops) {
  if (const auto biases = static_cast<std::int64_t>(params.logit_bias.size()); biases > kMostBiases) {
    return data_error("logit_bias", cat("at most ", kMostBiases, " tokens"), cat(biases), "leave some out");
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return data_error("logit_bias", cat("token ids from 0 to ", vocab_size - 1), cat(token), "leave it out");
    }
    if (std::isnan(bias) || (std::isinf(bias) && bias > 0.0F)) {
      return data_error(cat("logit_bias of token ", token), "a finite number or -infinity", cat(bias),
                        "100 forces a token well enough");
    }
  }
  if (params.top_logprobs < 0 || params.top_logprobs > most_tops) {
    return data_error("top_logprobs", cat("from 0 to ", most_tops, ", as this engine tells"), cat(params.top_logprobs),
                      "lower it, or start the engine with more top_logprobs");
  }
  if (const std::int64_t tops = params.prompt_logprobs.value_or(0); tops < 0 || tops > most_tops) {
    return data_error("prompt_logprobs", cat("from 0 to ", most_tops, ", as this engine tells"), cat(tops),
                      "lower it, or start the engine with more top_logprobs");
  }
  if (params.min_tokens < 0 || params.min_tokens > params.max_new_tokens) {
    return data_error("min_tokens", cat("from 0 to the answer's longest, ", params.max_new_tokens, " tokens"),
                      cat(params.min_tokens), "lower it, or raise the other");
  }
  return std::nullopt;
}

}  // namespace tern::engine
