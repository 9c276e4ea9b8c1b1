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

// How many guesses of a sequence pay, from how many were right: one at first; all right, twice as many; none, half as
// many.
class DraftDepth {
 public:
  [[nodiscard]] std::int64_t next(const SpeculativeOptions& options) const;  // of the next step
  void learn(std::int64_t guessed, std::int64_t right);                      // `guessed` is above 0

 private:
  std::int64_t depth_ = 1;
};

// What the guesses of a sequence may still cost, in drawn tokens: a wrong one makes a step longer for every sequence in
// it. Each right one earns a token, each token drawn kShare of one, so that no text takes more than about that share
// longer than without guesses. A clock would tell better what a step costs, but answers would then hang on the
// machine's load.
class DraftBudget {
 public:
  static constexpr double kShare = 0.008;

  // How many guesses a step of `sequences` may check of this one.
  [[nodiscard]] std::int64_t most(std::int64_t sequences) const;
  // Of each step in which a token was drawn.
  void learn(std::int64_t sequences, std::int64_t guessed, std::int64_t right);

 private:
  double left_ = 0.4;  // for one guess where the sequence is alone
};

}  // namespace tern::engine
