// Windows over a text: transformers' guide to perplexity, said as laws.
#include "engine/score_windows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/divergence.h"

namespace tern::engine {
namespace {

// The guide's loop: each window sets the targets that an earlier one has seen to -100, and the shift drops the first.
std::vector<ScoreWindow> guide(std::size_t tokens, std::size_t length, std::size_t stride) {
  std::vector<ScoreWindow> out;
  std::size_t prev_end = 0;
  for (std::size_t begin = 0; begin < tokens; begin += stride) {
    const std::size_t end = std::min(begin + length, tokens);
    const std::size_t targets = end - prev_end;
    out.push_back({begin, std::max(end - targets, begin + 1), end});
    prev_end = end;
    if (end == tokens) break;
  }
  return out;
}

TEST(ScoreWindows, AreThoseOfTransformersGuide) {
  for (const std::size_t tokens : {2, 9, 10, 11, 63, 64, 65, 100}) {
    for (const std::size_t length : {2, 10, 64}) {
      for (std::size_t stride = 1; stride < length; stride += 4) {
        const auto windows = score_windows(tokens, length, stride);
        const auto wanted = guide(tokens, length, stride);
        ASSERT_EQ(windows.size(), wanted.size()) << tokens << ", " << length << ", " << stride;
        std::size_t next = 1;
        for (std::size_t i = 0; i < windows.size(); ++i) {
          EXPECT_EQ(windows[i].begin, wanted[i].begin);
          EXPECT_EQ(windows[i].first, wanted[i].first);
          EXPECT_EQ(windows[i].end, wanted[i].end);
          EXPECT_EQ(windows[i].first, next) << "each token once";
          EXPECT_LE(windows[i].end - windows[i].begin, length);
          next = windows[i].end;
        }
        EXPECT_EQ(next, tokens);
      }
    }
  }
  EXPECT_TRUE(score_windows(1, 8, 4).empty());
  EXPECT_TRUE(score_windows(0, 8, 4).empty());
  EXPECT_EQ(score_windows(8, 8, 0).size(), 1U);
}

TEST(Divergence, OfSmallDistributions) {
  const std::vector<float> p = {std::log(0.5F), std::log(0.25F), std::log(0.25F)};
  const std::vector<float> q = {std::log(0.25F) + 40, std::log(0.5F) + 40, std::log(0.25F) + 40};
  const TokenComparison found = compare_logits(p, q, 1);
  // A logit of 40 is rounded by at most 2e-6.
  EXPECT_NEAR(found.kl, 0.5 * std::log(2) - 0.25 * std::log(2), 5e-6);
  EXPECT_NEAR(found.logprob, std::log(0.5), 5e-6);
  EXPECT_NEAR(found.reference, std::log(0.25), 1e-6);
  EXPECT_FALSE(found.same_top);
  const TokenComparison itself = compare_logits(q, q, 0);
  EXPECT_EQ(itself.kl, 0);
  EXPECT_TRUE(itself.same_top);
  // It is not symmetric: what the reference holds for impossible costs nothing.
  const std::vector<float> sure = {0, -60, -60};
  const std::vector<float> open = {0, 0, 0};
  EXPECT_NEAR(compare_logits(sure, open, 0).kl, std::log(3), 1e-6);
  EXPECT_NEAR(compare_logits(open, sure, 0).kl, 40 - std::log(3), 1e-4);
}

}  // namespace
}  // namespace tern::engine
