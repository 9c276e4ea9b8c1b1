// How many guesses are made follows from how many were right, and wrong ones cost little.
#include "engine/draft_budget.h"

#include <gtest/gtest.h>

#include <utility>

namespace tern::engine {
namespace {

TEST(DraftDepths, FollowWhatWasRight) {
  DraftDepth depth;
  EXPECT_EQ(depth.next(8), 1) << "many that are wrong at the beginning would cost a short answer too much";
  for (const std::int64_t wanted : {2, 4, 8}) {
    depth.learn(depth.next(8), depth.next(8));
    EXPECT_EQ(depth.next(8), wanted);
  }
  for (const std::int64_t wanted : {4, 2, 1, 1}) {
    depth.learn(depth.next(8), 0);
    EXPECT_EQ(depth.next(8), wanted);
  }
  depth.learn(1, 1);
  depth.learn(2, 2);
  depth.learn(4, 3);
  EXPECT_EQ(depth.next(8), 3);
  depth.learn(3, 3);
  EXPECT_EQ(depth.next(8), 6);
  depth.learn(6, 6);
  EXPECT_EQ(depth.next(8), 8) << "no more than was asked for";
}

// Where all guesses are wrong, what they cost by the steps that were measured (draft_budget.cpp) is below a fiftieth
// of the tokens, but for the first one.
TEST(DraftBudgets, WrongGuessesCostAShareOfTheTokens) {
  // Of a guess beside so many sequences: how much longer the step takes, for each of them.
  for (const auto& [sequences, lost] : {std::pair{1, 0.3}, {2, 2 * 0.3}, {3, 3 * 0.05}, {4, 4 * 0.17}, {8, 8 * 0.28}}) {
    DraftBudget budget;
    const DraftCost cost = {.each = cost_of_checking(sequences)};
    std::int64_t guessed = 0;
    for (int token = 1; token <= 2000; ++token) {
      const std::int64_t guesses = budget.most(cost);
      budget.spend(static_cast<double>(guesses) * cost.each);
      budget.earn(0);
      guessed += guesses;
      ASSERT_LE(lost * static_cast<double>(guessed), lost + 0.02 * token) << sequences << " sequences, token " << token;
    }
    EXPECT_GT(guessed, 1) << sequences << ": a text may begin to repeat itself";
  }
}

TEST(DraftBudgets, RightGuessesPayForMore) {
  const DraftCost cost = {.each = cost_of_checking(1)};
  DraftBudget budget;
  const auto learn = [&](std::int64_t guessed, std::int64_t right) {
    budget.spend(static_cast<double>(guessed) * cost.each);
    budget.earn(right);
  };
  EXPECT_EQ(budget.most(cost), 1);
  for (int step = 0; step < 8; ++step) learn(budget.most(cost), budget.most(cost));
  EXPECT_GE(budget.most(cost), 16);
  for (int step = 0; step < 1000; ++step) learn(4, 4);
  std::int64_t wrong = 0;
  for (int step = 0; step < 10; ++step) {
    const std::int64_t guesses = budget.most(cost);
    learn(guesses, 0);
    wrong += guesses;
  }
  EXPECT_LE(wrong, 26) << "what was earned long ago pays for no bad run";
}

// What must be computed before the first guess is paid before any is made.
TEST(DraftBudgets, PayWhatComesBeforeTheFirstGuess) {
  const DraftBudget budget(2.0);
  EXPECT_EQ(budget.most({.each = 0.5}), 4);
  EXPECT_EQ(budget.most({.before = 1.2, .each = 0.5}), 1);
  EXPECT_EQ(budget.most({.before = 3.0, .each = 0.5}), 0);
}

}  // namespace
}  // namespace tern::engine
