#include "engine/reasoning_mask.h"

#include <gtest/gtest.h>

#include <set>

namespace tern::engine {

namespace {

// Allows 5, then 6, then the end token 1.
class FiveSix final : public TokenMask {
 public:
  void fill(std::span<std::uint32_t> words) override {
    std::fill(words.begin(), words.end(), 0U);
    words[0] = 1U << (seen.empty() ? 5 : seen.size() == 1 ? 6 : 1);
  }
  void accept(std::int32_t token) override { seen.push_back(token); }
  [[nodiscard]] bool complete() const override { return seen.size() >= 2; }
  std::vector<std::int32_t> seen;
};

std::set<int> allowed_tokens(TokenMask& mask, int vocab_size = 40) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(vocab_size + 31) / 32, 0xABCDU);
  mask.fill(words);
  std::set<int> tokens;
  for (int i = 0; i < static_cast<int>(words.size()) * 32; ++i) {
    if ((words[static_cast<std::size_t>(i) / 32] >> (i % 32) & 1U) != 0) tokens.insert(i);
  }
  return tokens;
}

Reasoning marked() { return {{}, {7, 7, 8}, {1, 2}, 40}; }

TEST(AfterReasoning, EverythingButAnEndUntilTheMarker) {
  const auto inner = std::make_shared<FiveSix>();
  const auto mask = after_reasoning(inner, marked());
  const auto before = allowed_tokens(*mask);
  EXPECT_EQ(before.size(), 38U);
  EXPECT_FALSE(before.contains(1) || before.contains(2));
  for (const int token : {7, 8, 3, 7, 7, 7}) {  // the marker's last token follows two of the three
    mask->accept(token);
    EXPECT_EQ(allowed_tokens(*mask).size(), 38U);
    EXPECT_FALSE(mask->complete());
  }
  mask->accept(8);
  EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{5}));
  mask->accept(5);
  EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{6}));
  mask->accept(6);
  EXPECT_TRUE(mask->complete());
  EXPECT_EQ(inner->seen, (std::vector<std::int32_t>{5, 6}));
}

TEST(ThinkingBudget, ForcesTheMarkerAndNothingElse) {
  const auto mask = thinking_budget(nullptr, marked(), 3);
  EXPECT_EQ(allowed_tokens(*mask).size(), 40U);
  for (const int token : {9, 9}) mask->accept(token);
  EXPECT_EQ(allowed_tokens(*mask).size(), 40U);
  mask->accept(7);  // the third; the marker has begun
  for (const int token : {7, 8}) {
    EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{token}));
    mask->accept(token);
  }
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(allowed_tokens(*mask).size(), 40U);
    mask->accept(9);
  }
}

TEST(ThinkingBudget, ZeroClosesAtOnce) {
  const auto mask = thinking_budget(nullptr, marked(), 0);
  for (const int token : {7, 7, 8}) {
    EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{token}));
    mask->accept(token);
  }
  EXPECT_EQ(allowed_tokens(*mask).size(), 40U);
}

TEST(ThinkingBudget, CountsFromTheMarkerThatOpens) {
  Reasoning opened = marked();
  opened.begin_ids = {3};
  const auto mask = thinking_budget(nullptr, opened, 1);
  for (int i = 0; i < 5; ++i) mask->accept(9);
  EXPECT_EQ(allowed_tokens(*mask).size(), 40U);
  mask->accept(3);
  EXPECT_EQ(allowed_tokens(*mask).size(), 40U);
  mask->accept(9);
  EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{7}));
}

TEST(ThinkingBudget, BeforeAConstraint) {
  const auto mask = thinking_budget(after_reasoning(std::make_shared<FiveSix>(), marked()), marked(), 1);
  for (const int token : {9, 7, 7, 8, 5}) mask->accept(token);
  EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{6}));
  EXPECT_FALSE(mask->complete());
  mask->accept(6);
  EXPECT_TRUE(mask->complete());
}

}  // namespace

}  // namespace tern::engine
