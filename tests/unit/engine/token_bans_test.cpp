#include "engine/token_bans.h"

#include <gtest/gtest.h>

#include <set>

namespace tern::engine {
namespace {

std::set<int> allowed_tokens(TokenMask& mask, int vocab_size = 40) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(vocab_size + 31) / 32, 0xABCDU);
  mask.fill(words);
  std::set<int> tokens;
  for (int i = 0; i < static_cast<int>(words.size()) * 32; ++i) {
    if ((words[static_cast<std::size_t>(i) / 32] >> (i % 32) & 1U) != 0) tokens.insert(i);
  }
  return tokens;
}

// Allows the same tokens always, and keeps what was drawn.
class Few final : public TokenMask {
 public:
  void fill(std::span<std::uint32_t> words) override {
    std::fill(words.begin(), words.end(), 0U);
    words[0] = 0b111000U;  // 3, 4, 5
  }
  void accept(std::int32_t token) override { seen.push_back(token); }
  [[nodiscard]] bool complete() const override { return false; }
  std::vector<std::int32_t> seen;
};

TokenBans bans(std::vector<std::vector<std::int32_t>> words, std::vector<std::int32_t> allowed = {}) {
  return {std::move(allowed), std::move(words), {1, 2}, 40};
}

TEST(TokenBans, AWordsLastTokenIsBannedBehindItsOthers) {
  const auto mask = without_banned(nullptr, bans({{5}, {7, 7, 8}, {8, 9}}));
  const auto open = [&](int token) { return allowed_tokens(*mask).contains(token); };
  EXPECT_EQ(allowed_tokens(*mask).size(), 39U);
  EXPECT_FALSE(open(5));
  mask->accept(7);
  EXPECT_TRUE(open(8));
  mask->accept(7);
  EXPECT_FALSE(open(8));
  mask->accept(7);  // of the three the last two count
  EXPECT_FALSE(open(8));
  EXPECT_TRUE(open(9));
  mask->accept(3);
  EXPECT_TRUE(open(8));
  mask->accept(8);
  EXPECT_FALSE(open(9));
  EXPECT_FALSE(mask->complete());
}

TEST(TokenBans, OnlyAllowedTokensAreDrawn) {
  const auto mask = without_banned(nullptr, bans({{33}}, {33, 34, 3}));
  EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{34, 3}));
}

TEST(TokenBans, AMaskCountsBesideThem) {
  const auto few = std::make_shared<Few>();
  const auto mask = without_banned(few, bans({{4}, {3, 5}}, {3, 4, 5, 6}));
  EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{3, 5}));
  mask->accept(3);
  EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{3}));
  EXPECT_EQ(few->seen, std::vector<std::int32_t>{3});
}

// Nothing is left: the answer ends, and the mask is told nothing that it did not allow.
TEST(TokenBans, EndWhereNothingIsLeft) {
  const auto few = std::make_shared<Few>();
  const auto mask = without_banned(few, bans({{3}, {4}, {5}}));
  EXPECT_EQ(allowed_tokens(*mask), (std::set<int>{1, 2}));
  EXPECT_TRUE(mask->complete());
  mask->accept(1);
  EXPECT_TRUE(few->seen.empty());
}

}  // namespace
}  // namespace tern::engine
