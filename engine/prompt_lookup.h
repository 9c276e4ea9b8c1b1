// Guesses of the tokens that follow, taken from what followed the same words before (prompt lookup, Saxena 2023): for
// answers that repeat much of their prompt. A step checks several of them at once, and keeps those that it draws
// itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tern::engine {

// vLLM's names.
struct SpeculativeOptions {
  std::int64_t num_speculative_tokens = 0;  // most guesses in a step; 0: none
  std::int64_t prompt_lookup_max = 5;       // tokens of the words that are looked up, the longest first
  std::int64_t prompt_lookup_min = 5;
};

// Appends to `drafts` at most `most` tokens that followed the latest earlier place of the last tokens.
void look_up(std::span<const std::int32_t> tokens, const SpeculativeOptions& options, std::int64_t most,
             std::vector<std::int32_t>& drafts);

// How many guesses pay, from how many were right: all right, twice as many; none, half as many; after the last wrong
// one none for a while. So a sequence whose guesses are wrong checks one in kPause tokens.
class DraftDepth {
 public:
  static constexpr std::int64_t kPause = 32;

  [[nodiscard]] std::int64_t next(const SpeculativeOptions& options);  // of the next step
  void learn(std::int64_t guessed, std::int64_t right);                // `guessed` is above 0

 private:
  std::int64_t depth_ = -1;  // -1: nothing was tried yet
  std::int64_t pause_ = 0;
};

}  // namespace tern::engine
