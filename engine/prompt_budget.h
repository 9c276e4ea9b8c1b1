// Steps no longer than those who wait for the next token of an answer are to wait: Sarathi-Serve's bound on the tokens
// of prompts beside them (Agrawal et al., OSDI 2024), found from what steps take instead of being given.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern::engine {

// How many tokens of prompts steps may compute beside answers, so that these wait no longer than `target` seconds for a
// token: what the last steps took says it. Few are always computed, as prompts would else wait for ever.
class PromptBudget {
 public:
  static constexpr std::int64_t kLeast = 16;

  PromptBudget(double target, std::int64_t most) : target_(target), most_(most), tokens_(most) {}
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }

  // A step with answers and `prompt` tokens of prompts, of which it could have had `limit`, took `seconds`. It may have
  // been prepared before tokens() became what it is.
  void learn(std::int64_t prompt, std::int64_t limit, double seconds) {
    if (target_ <= 0 || prompt == 0 || seconds <= 0) return;
    constexpr double kGrowth = 1.25;  // a step at most: one that was fast by chance isn't taken for all
    const double factor = std::min(target_ / seconds, kGrowth);
    if (factor > 1 && prompt < limit) return;  // there were no more
    const auto next = static_cast<std::int64_t>(static_cast<double>(prompt) * factor);
    tokens_ =
        std::clamp(factor > 1 ? std::max(tokens_, next) : std::min(tokens_, next), std::min(kLeast, most_), most_);
  }

 private:
  double target_;
  std::int64_t most_, tokens_;
};

}  // namespace tern::engine
