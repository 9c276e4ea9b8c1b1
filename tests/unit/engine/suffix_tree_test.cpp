// If these fail, words are counted that nobody wrote or that have left, guesses are not what mostly followed them, or
// the tree takes more memory than it says.
#include "engine/suffix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/philox.h"

namespace tern::engine {
namespace {

using TreeWords = std::vector<std::int32_t>;

// All texts, and how often all words of up to `depth` tokens stand in them.
struct TreeOracle {
  std::int64_t depth = 0;
  std::map<std::int64_t, TreeWords> texts;

  [[nodiscard]] std::map<TreeWords, std::int64_t> counts() const {
    std::map<TreeWords, std::int64_t> out;
    for (const auto& [id, text] : texts) {
      for (auto begin = text.begin(); begin != text.end(); ++begin) {
        for (auto end = begin + 1; end - begin <= depth; ++end) {
          ++out[TreeWords(begin, end)];
          if (end == text.end()) break;
        }
      }
    }
    return out;
  }
};

// What may follow words: every run of most frequent tokens, where equal ones branch, with its score.
class Followers {
 public:
  Followers(const std::map<TreeWords, std::int64_t>& counts, std::int64_t depth, double min_probability)
      : counts_(counts), depth_(depth), min_probability_(min_probability) {}

  std::map<TreeWords, double> of(const TreeWords& words, std::int64_t most) {
    found_.clear();
    go_on(words, words.size(), 1, 0, most);
    return found_;
  }

 private:
  void go_on(TreeWords words, std::size_t from, double probability, double score, std::int64_t most) {
    std::map<std::int32_t, std::int64_t> next;
    std::int64_t all = 0;
    std::int64_t best = 0;
    if (most > 0 && static_cast<std::int64_t>(words.size()) < depth_) {
      for (std::int32_t token = 0; token < 4; ++token) {
        words.push_back(token);
        const auto entry = counts_.find(words);
        words.pop_back();
        if (entry == counts_.end()) continue;
        next[token] = entry->second;
        all += entry->second;
        best = std::max(best, entry->second);
      }
    }
    const double then = all == 0 ? 0 : probability * static_cast<double>(best) / static_cast<double>(all);
    if (all == 0 || then < min_probability_) {
      found_[TreeWords(words.begin() + static_cast<std::ptrdiff_t>(from), words.end())] = score;
      return;
    }
    for (const auto& [token, count] : next) {
      if (count < best) continue;
      TreeWords longer = words;
      longer.push_back(token);
      go_on(longer, from, then, score + then, most - 1);
    }
  }

  const std::map<TreeWords, std::int64_t>& counts_;
  std::int64_t depth_;
  double min_probability_;
  std::map<TreeWords, double> found_;
};

// Of each number of last words the least that any of its runs is worth: the best one is worth as much.
void check_likeliest(SuffixTree& tree, const std::map<TreeWords, std::int64_t>& counts, std::int64_t depth,
                     const TreeWords& text, const SuffixTree::Limits& limits) {
  Followers followers(counts, depth, limits.min_probability);
  const auto got = tree.likeliest(text, limits);
  double least = 0;
  std::set<double> scores;
  for (std::int64_t n = 1; n < depth && n <= static_cast<std::int64_t>(text.size()); ++n) {
    const TreeWords words(text.end() - n, text.end());
    if (!counts.contains(words)) break;
    const auto allowed = static_cast<std::int64_t>(static_cast<double>(n) * limits.factor + 1e-6);
    double worst = 1e9;
    for (const auto& [run, score] : followers.of(words, std::min(limits.most, allowed))) {
      worst = std::min(worst, score);
      if (run == got.tokens) scores.insert(score);
    }
    least = std::max(least, worst);
  }
  EXPECT_GE(got.score, least - 1e-9);
  if (got.tokens.empty()) {
    EXPECT_EQ(got.score, 0);
    return;
  }
  const auto equal = [&](double score) { return std::abs(score - got.score) < 1e-9; };
  EXPECT_TRUE(std::any_of(scores.begin(), scores.end(), equal)) << "not what mostly followed";
}

// A course of texts that grow at once, repeat themselves and each other, and leave.
void run_course(std::uint64_t seed) {
  std::uint64_t drawn = 0;
  const auto draw = [&](std::uint32_t below) {
    return philox(seed, {static_cast<std::uint32_t>(drawn++), 0, 0, 0})[0] % below;
  };
  const std::int64_t depth = 1 + draw(7);
  const std::uint32_t alphabet = 1 + draw(4);
  SuffixTree tree(depth);
  TreeOracle oracle{depth, {}};
  TreeWords last;
  for (int step = 0; step < 250; ++step) {
    const std::uint32_t what = draw(40);
    if (what < 3 || oracle.texts.empty()) {
      oracle.texts[tree.add()];
    } else if (what == 3 || (what == 4 && oracle.texts.size() > 3)) {
      tree.remove_oldest();
      oracle.texts.erase(oracle.texts.begin());
    } else {
      auto entry = std::next(oracle.texts.begin(), draw(static_cast<std::uint32_t>(oracle.texts.size())));
      const TreeWords& other = oracle.texts.begin()->second;
      const bool repeats = draw(3) > 0 && entry->second.size() < other.size();
      const auto token = repeats ? other[entry->second.size()] : static_cast<std::int32_t>(draw(alphabet));
      tree.append(entry->first, token);
      entry->second.push_back(token);
      last = entry->second;
    }
    if (step % 10 != 9) continue;
    const auto counts = oracle.counts();
    for (const auto& [words, count] : counts) ASSERT_EQ(tree.count(words), count);
    for (int some = 0; some < 20; ++some) {
      TreeWords words;
      for (std::uint32_t n = 1 + draw(static_cast<std::uint32_t>(depth)); n > 0; --n) {
        words.push_back(static_cast<std::int32_t>(draw(4)));
      }
      const auto entry = counts.find(words);
      ASSERT_EQ(tree.count(words), entry == counts.end() ? 0 : entry->second);
    }
    const SuffixTree::Limits limits = {draw(6), 0.5 + draw(4), 0.2 * draw(5)};
    ASSERT_NO_FATAL_FAILURE(check_likeliest(tree, counts, depth, last, limits));
    std::int64_t tokens = 0;
    for (const auto& [id, text] : oracle.texts) tokens += static_cast<std::int64_t>(text.size());
    ASSERT_LE(tree.bytes(), tokens * (4 + 2 * 88) + tree.num_texts() * (48 + 4 * depth)) << "two nodes a token";
  }
  while (tree.num_texts() > 0) tree.remove_oldest();
  EXPECT_EQ(tree.bytes(), 0) << "something of the texts is left";
  EXPECT_EQ(tree.likeliest(last, {5, 1, 0}).tokens, TreeWords{});
}

TEST(SuffixTree, CountsAsWhoReadsAllTexts) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    run_course(seed);
    if (testing::Test::HasFailure()) return;
  }
}

SuffixTree tree_of(std::int64_t depth, const std::vector<TreeWords>& texts) {
  SuffixTree tree(depth);
  for (const TreeWords& text : texts) {
    const std::int64_t id = tree.add();
    for (const std::int32_t token : text) tree.append(id, token);
  }
  return tree;
}

TEST(SuffixTree, GoesOnAsMostTextsDid) {
  SuffixTree tree = tree_of(8, {{1, 2, 3, 4, 5}, {1, 2, 3, 6, 7}, {9, 2, 3, 6, 8}});
  const auto after = [&](const TreeWords& text, const SuffixTree::Limits& limits) {
    return tree.likeliest(text, limits);
  };
  EXPECT_EQ(after({2, 3}, {4, 1, 0.5}).tokens, TreeWords{6}) << "two of three texts, and then one of these two";
  EXPECT_NEAR(after({2, 3}, {4, 1, 0.5}).score, 2.0 / 3, 1e-9);
  EXPECT_EQ(after({2, 3}, {4, 1, 0.7}).tokens, TreeWords{});
  EXPECT_EQ(after({1, 2, 3, 4}, {4, 1, 0.1}).tokens, TreeWords{5});
  EXPECT_EQ(after({9, 2, 3}, {4, 1, 0.1}).tokens, (TreeWords{6, 8})) << "three words are found where one text has them";
  EXPECT_EQ(after({9, 2, 3}, {1, 1, 0.1}).tokens, TreeWords{6});
  EXPECT_EQ(after({0, 9}, {4, 1, 0.1}).tokens, TreeWords{2}) << "one word, one guess";
  EXPECT_EQ(after({0, 9}, {4, 3.5, 0.1}).tokens, (TreeWords{2, 3, 6}));
  EXPECT_EQ(after({0}, {4, 1, 0}).tokens, TreeWords{});
  EXPECT_EQ(after({}, {4, 1, 0}).tokens, TreeWords{});
  tree.remove_oldest();
  tree.remove_oldest();
  EXPECT_EQ(after({2, 3}, {4, 1, 0.9}).tokens, (TreeWords{6, 8}));
  EXPECT_EQ(after({1, 2, 3, 4}, {4, 1, 0}).tokens, TreeWords{});
}

// A text that goes on matches itself, up to its last token.
TEST(SuffixTree, FindsWhatATextRepeatsOfItself) {
  SuffixTree tree = tree_of(8, {{5, 6, 7, 5, 6}});
  EXPECT_EQ(tree.likeliest(TreeWords{5, 6}, {8, 1, 0}).tokens, (TreeWords{7, 5}));
  EXPECT_DOUBLE_EQ(tree.likeliest(TreeWords{5, 6}, {8, 1, 0}).score, 2) << "the end of the text follows with nothing";
  SuffixTree same = tree_of(8, {{4, 4, 4, 4}});
  EXPECT_EQ(same.likeliest(TreeWords{4, 4, 4, 4}, {8, 1, 0.1}).tokens, (TreeWords{4, 4})) << "as two of them do";
}

// Equal texts take no more than one of them and their tokens: counting is what a further one adds.
TEST(SuffixTree, TakesEqualTextsOnce) {
  TreeWords text;
  for (std::int32_t i = 0; i < 400; ++i) text.push_back(i * i % 97);
  SuffixTree tree = tree_of(24, {text});
  const std::int64_t one = tree.bytes();
  for (int more = 0; more < 9; ++more) {
    const std::int64_t id = tree.add();
    for (const std::int32_t token : text) tree.append(id, token);
  }
  EXPECT_LT(tree.bytes(), one + 9 * (400 * 4 + 48 + 24 * 4) + one / 10);
}

}  // namespace
}  // namespace tern::engine
