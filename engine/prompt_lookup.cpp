#include "engine/prompt_lookup.h"

#include <algorithm>

namespace tern::engine {

void look_up(std::span<const std::int32_t> tokens, const SpeculativeOptions& options, std::int64_t most,
             std::vector<std::int32_t>& drafts) {
  const auto size = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t n = options.prompt_lookup_max; n >= options.prompt_lookup_min && most > 0; --n) {
    if (n >= size) continue;
    const auto words = tokens.last(static_cast<std::size_t>(n));
    for (std::int64_t at = size - n - 1; at >= 0; --at) {
      const auto there = tokens.subspan(static_cast<std::size_t>(at));
      if (!std::equal(words.begin(), words.end(), there.begin())) continue;
      const auto follow = there.subspan(words.size());
      drafts.insert(drafts.end(), follow.begin(),
                    follow.begin() + std::min<std::int64_t>(most, static_cast<std::int64_t>(follow.size())));
      return;
    }
  }
}

std::int64_t DraftDepth::next(const SpeculativeOptions& options) const {
  return std::min(depth_, options.num_speculative_tokens);
}

void DraftDepth::learn(std::int64_t guessed, std::int64_t right) {
  if (right == guessed) {
    depth_ = std::max(depth_, 2 * guessed);
  } else {
    depth_ = right > 0 ? right : std::max<std::int64_t>(1, std::min(depth_, guessed) / 2);
  }
}

namespace {

// Of one guess, in drawn tokens: a step takes longer for all its sequences. With SmolLM2-135M in Q4_1 on one core with
// AVX-512 steps of 1, 2, 3, 4, 5, 8, 9 and 16 rows took 1, 1.3, 1.7, 1.7, 2.0, 2.3, 2.9 and 3.5 times as long as one
// row's.
double cost_of_guess(std::int64_t sequences) { return 0.2 + 0.12 * static_cast<double>(sequences); }

constexpr double kMostLeft = 8;  // a good run pays for no long bad one

}  // namespace

std::int64_t DraftBudget::most(std::int64_t sequences) const {
  return static_cast<std::int64_t>(std::max(0.0, left_) / cost_of_guess(sequences));
}

void DraftBudget::learn(std::int64_t sequences, std::int64_t guessed, std::int64_t right) {
  const double earned = kShare + static_cast<double>(right);
  left_ = std::min(kMostLeft, left_ + earned - static_cast<double>(guessed) * cost_of_guess(sequences));
}

}  // namespace tern::engine
