// How the next token is drawn, and when a sequence ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/token_mask.h"

namespace tern::engine {

struct SamplingParams {
  float temperature = 0.0F;  // 0: greedy
  std::int32_t top_k = 0;    // 0: off
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  // Added to the logits of single tokens, -infinity bans one; no more than kMostBiases.
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::shared_ptr<TokenMask> mask;  // of this answer alone; null: every token is allowed
  std::int64_t top_logprobs = 0;    // how many of the likeliest tokens are told beside a drawn one
  bool processed_logprobs = false;  // log-probabilities are those of what was drawn from (processed_logprobs.h)
  // The log-probability of each token of the prompt but the first is told, with so many of the likeliest in its place.
  // Every token has to be computed then: none may be taken from what another request left in the cache.
  std::optional<std::int64_t> prompt_logprobs;
  // Above 1 the answer is the best that a beam search finds (beam_search.h): nothing is drawn. Of AnswerStream and
  // AsyncBeams alone.
  std::int64_t num_beams = 1;
  double length_penalty = 1;  // of the beams (BeamOptions::length_penalty)
  std::int64_t max_new_tokens = 512;
  std::int64_t min_tokens = 0;    // that the answer has at least: no end token is drawn before, no stop text looked for
  std::vector<std::string> stop;  // texts that end the answer and are not part of it
  std::vector<std::int32_t> stop_token_ids;  // beside the model's end tokens
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;  // false: they are part of the text, but for the one that ends it
  // A token is drawn by (seed, request, sample, position) and nothing else: equal prompts with other requests or
  // samples get other answers, and neither the batch nor what ran before changes one.
  std::uint64_t seed = 42;
  std::uint64_t request = 0;  // a row's number; a server, whose requests have seeds of their own, leaves 0
  std::uint64_t sample = 0;   // of several answers to one request
};

inline constexpr std::int64_t kMostBiases = 1024;  // of one request

// What no model of so many tokens can be asked for (data); none where all is well. `most_tops`: what the engine tells.
[[nodiscard]] std::optional<Error> impossible_sampling(const SamplingParams& params, std::int64_t vocab_size,
                                                       std::int64_t most_tops);

}  // namespace tern::engine
