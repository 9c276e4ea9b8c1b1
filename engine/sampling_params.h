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
  std::uint64_t seed = 42;
};

}  // namespace tern::engine
