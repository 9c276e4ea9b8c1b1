// How the next token is drawn, and when a sequence ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::engine {

struct SamplingParams {
  float temperature = 0.0F;  // 0: greedy
  std::int32_t top_k = 0;    // 0: off
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::int64_t max_new_tokens = 512;
  std::vector<std::string> stop;             // texts that end the answer and are not part of it
  std::vector<std::int32_t> stop_token_ids;  // beside the model's end tokens
  bool ignore_eos = false;
  // A token is drawn by (seed, request, sample, position) and nothing else: equal prompts with other requests or
  // samples get other answers, and neither the batch nor what ran before changes one.
  std::uint64_t seed = 42;
  std::uint64_t request = 0;  // a row's number; a server, whose requests have seeds of their own, leaves 0
  std::uint64_t sample = 0;   // of several answers to one request
};

}  // namespace tern::engine
