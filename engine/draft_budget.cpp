#include "engine/draft_budget.h"

#include <algorithm>

namespace tern::engine {

std::int64_t DraftDepth::next(std::int64_t most) const { return std::min(depth_, most); }

void DraftDepth::learn(std::int64_t guessed, std::int64_t right) {
  if (right == guessed) {
    depth_ = std::max(depth_, 2 * guessed);
  } else {
    depth_ = right > 0 ? right : std::max<std::int64_t>(1, std::min(depth_, guessed) / 2);
  }
}

// With SmolLM2-135M in Q4_1 on one core with AVX-512 steps of 1, 2, 3, 4, 5, 8, 9 and 16 rows took 1, 1.3, 1.7, 1.7,
// 2.0, 2.3, 2.9 and 3.5 times as long as one row's.
double cost_of_checking(std::int64_t sequences) { return 0.2 + 0.12 * static_cast<double>(sequences); }

std::int64_t DraftBudget::most(const DraftCost& cost) const {
  return static_cast<std::int64_t>(std::max(0.0, left_ - cost.before) / cost.each);
}

void DraftBudget::earn(std::int64_t right) { left_ = std::min(kMost, left_ + kShare + static_cast<double>(right)); }

double first_guesses(double earned) {
  constexpr double kMostAtFirst = 1.0;
  return std::clamp(earned, 0.0, kMostAtFirst);
}

}  // namespace tern::engine
