// The shipped rows are good rows, and the preference pairs differ where they should.
#include <gtest/gtest.h>

#include <set>

#include "base/strings.h"
#include "data/row.h"

namespace tern::data {
namespace {

std::vector<Row> rows(const std::string& name) {
  const std::string file = cat(TERN_SOURCE_DIR, "/examples/gsm8k/", name);
  auto reader = open_rows(file).value();
  Normalizer normalizer({});
  std::vector<Row> out;
  RawRow raw;
  while (reader->next(raw).value()) out.push_back(normalizer.row(raw, file).value());
  return out;
}

std::string final_answer(const std::string& text) { return text.substr(text.rfind("#### ") + 5); }

TEST(Examples, TrainAndTestShareNoQuestion) {
  const auto train = rows("train.jsonl");
  const auto test = rows("test.jsonl");
  EXPECT_EQ(train.size(), 512U);
  EXPECT_EQ(test.size(), 64U);
  std::set<std::string> seen;
  for (const auto& row : train) EXPECT_TRUE(seen.insert(row.messages[0].content).second);
  for (const auto& row : test) EXPECT_TRUE(seen.insert(row.messages[0].content).second);
}

TEST(Examples, RejectedAnswersAreWrong) {
  const auto pairs = rows("pairs.jsonl");
  ASSERT_EQ(pairs.size(), 200U);
  for (const auto& row : pairs) {
    const auto& chosen = row.messages.back().content;
    const auto& rejected = row.rejected.back().content;
    EXPECT_NE(final_answer(chosen), final_answer(rejected)) << chosen;
    EXPECT_EQ(split(chosen, '\n').size(), split(rejected, '\n').size());
    EXPECT_EQ(row.messages.front(), row.rejected.front());
  }
}

}  // namespace
}  // namespace tern::data
