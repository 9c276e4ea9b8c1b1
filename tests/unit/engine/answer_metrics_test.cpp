// ROUGE and BLEU of pairs, with the numbers that ms-swift's compute_rouge_bleu gives (jieba 0.42.1, rouge 1.0.1,
// nltk's sentence_bleu with method3).
#include "engine/answer_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "base/strings.h"

namespace tern::engine {
namespace {

struct Pair {
  const char* answer;
  const char* label;
  std::array<double, 4> scores;  // rouge-1, rouge-2, rouge-l, bleu-4
};

const Pair kPairs[] = {
    {"the cat sat on the mat", "the cat sat on the mat", {0.999999995, 0.999999995, 0.999999995, 1.000000000}},
    {"the cat was found under the bed",
     "the cat was under the bed",
     {0.909090904, 0.727272722, 0.909090904, 0.411133617}},
    {"Natalia sold 48/2 = 24 clips in May. Natalia sold 48+24 = 72 clips altogether. #### 72",
     "She sold 24 clips in May. Altogether, that's 72 clips (48+24). #### 72",
     {0.580645156, 0.378378373, 0.580645156, 0.277487027}},
    {"It's 3.5% of $12,345.67, isn't it?",
     "It is 3.5% of $12,345.67.",
     {0.719999995, 0.559999995, 0.719999995, 0.336493244}},
    {"w1 w2 w6 w7 w8. w1 w3 w8 w9 w5.", "w1 w2 w3 w4 w5", {0.615384611, 0.153846150, 0.615384611, 0.080544964}},
    {"...", ".", {0.000000000, 0.000000000, 0.000000000, 0.000000000}},
    {"no", "yes", {0.000000000, 0.000000000, 0.000000000, 0.000000000}},
    {"a. . b", "a b. c", {0.666666662, 0.000000000, 0.666666662, 0.210224104}},
    {"a_b-c foo.bar x%y --", "foo bar a b c", {0.666666662, 0.153846150, 0.533333329, 0.056042334}},
    {"one two three four five", "five four three two one", {0.999999995, 0.000000000, 0.199999995, 0.159735776}},
    {"he said: go\nnow", "he said go\tnow ...", {0.888888884, 0.571428567, 0.888888884, 0.193048698}},
    {"7", "72", {0.000000000, 0.000000000, 0.000000000, 0.000000000}},
    {"The answer is 72. So 72.", "72", {0.333333331, 0.000000000, 0.333333331, 0.055223978}},
};

TEST(AnswerMetrics, AreThoseOfMsSwift) {
  for (const Pair& pair : kPairs) {
    const AnswerScores found = score_answer(pair.answer, pair.label);
    EXPECT_NEAR(found.rouge_1, pair.scores[0], 1e-9) << pair.answer;
    EXPECT_NEAR(found.rouge_2, pair.scores[1], 1e-9) << pair.answer;
    EXPECT_NEAR(found.rouge_l, pair.scores[2], 1e-9) << pair.answer;
    EXPECT_NEAR(found.bleu_4, pair.scores[3], 1e-9) << pair.answer;
  }
  EXPECT_EQ(score_answer("", "a").bleu_4, 0);
  EXPECT_EQ(score_answer(" ", "a").rouge_1, 0);
  EXPECT_EQ(score_answer("a", "").rouge_l, 0);
}

// Of several longest common subsequences it is the one that a walk back through all lengths finds, as the package does
// it. Long texts keep few of these rows, and must walk the same way.
TEST(AnswerMetrics, LongTextsKeepFewRows) {
  std::mt19937 random(3);
  for (const int size : {1, 2, 3, 7, 16, 17, 50, 120}) {
    std::vector<std::string> x, y;
    for (int i = 0; i < size; ++i) x.push_back(std::string(1, static_cast<char>('a' + random() % 6)));
    for (int i = 0; i < size + 3; ++i) y.push_back(std::string(1, static_cast<char>('a' + random() % 9)));
    std::vector<std::vector<int>> table(x.size() + 1, std::vector<int>(y.size() + 1));
    for (std::size_t i = 1; i <= x.size(); ++i) {
      for (std::size_t j = 1; j <= y.size(); ++j)
        table[i][j] = x[i - 1] == y[j - 1] ? table[i - 1][j - 1] + 1 : std::max(table[i - 1][j], table[i][j - 1]);
    }
    std::set<std::string> common;
    for (std::size_t i = x.size(), j = y.size(); i > 0 && j > 0;) {
      if (x[i - 1] == y[j - 1]) {
        common.insert(x[--i]);
        --j;
      } else if (table[i - 1][j] > table[i][j - 1]) {
        --i;
      } else {
        --j;
      }
    }
    const auto kinds = [](const std::vector<std::string>& words) {
      return static_cast<double>(std::set<std::string>(words.begin(), words.end()).size());
    };
    const auto shared = static_cast<double>(common.size());
    const double precision = shared / kinds(y), recall = shared / kinds(x);
    const double want = 2 * precision * recall / (precision + recall + 1e-8);
    EXPECT_NEAR(score_answer(join(y, " "), join(x, " ")).rouge_l, want, 1e-9) << size;
  }
}

TEST(AnswerMetrics, WordsAreThoseOfJiebaButForChinese) {
  const std::vector<std::string> wanted = {"Don",    "'",  "t",   "3.5%", "of", "#", "42",  "12", ",",
                                           "345.67", "a",  "-",   "b",    "_",  "c", "foo", ".",  "bar",
                                           "中",     "文", "ABC", "测",   "x%", "y", "--",  "\n", "é"};
  EXPECT_EQ(metric_words("Don't 3.5% of #42 12,345.67 a-b_c foo.bar 中文 ABC测 x%y --\né"), wanted);
  EXPECT_EQ(metric_words("\xFF"), std::vector<std::string>{"\xEF\xBF\xBD"});
}

}  // namespace
}  // namespace tern::engine
