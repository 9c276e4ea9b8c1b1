// How many tokens of a sequence are guessed, by how many were right and by what that costs.
#pragma once

#include <cstdint>

namespace tern::engine {

// How many guesses of a sequence pay, from how many were right: one at first; all right, twice as many; none, half as
// many.
class DraftDepth {
 public:
  [[nodiscard]] std::int64_t next(std::int64_t most) const;  // of the next step
  void learn(std::int64_t guessed, std::int64_t right);      // `guessed` is above 0

 private:
  std::int64_t depth_ = 1;
};

// In drawn tokens: the time in which one token of a sequence would have been drawn.
struct DraftCost {
  double before = 0;  // of the first guess
  double each = 0;
};

// Of checking one guess: a step takes longer for all its sequences.
[[nodiscard]] double cost_of_checking(std::int64_t sequences);

// What guesses may still cost, in drawn tokens. Each right one earns a token, each token drawn kShare of one, so that
// no text takes more than about that share longer than without guesses. A clock would tell better what a step costs,
// but answers would then hang on the machine's load.
class DraftBudget {
 public:
  static constexpr double kShare = 0.008;
  static constexpr double kMost = 8;  // a good run pays for no long bad one

  DraftBudget() = default;
  explicit DraftBudget(double at_first) : left_(at_first) {}

  [[nodiscard]] std::int64_t most(const DraftCost& cost) const;  // guesses
  [[nodiscard]] double left() const { return left_; }
  void spend(double cost) { left_ -= cost; }
  void grant(double tokens) { left_ += tokens; }
  // Of each step in which a token was drawn: so many guesses before it were right.
  void earn(std::int64_t right);

 private:
  double left_ = 0.4;  // for one guess where the sequence is alone
};

// What a sequence begins with of what all guesses earned so far, in drawn tokens: where these pay on the whole, it
// makes some at once, whoever else waits for its steps.
[[nodiscard]] double first_guesses(double earned);

}  // namespace tern::engine
