// Parts of answers and their weights: those that ms-swift 4.6.0 gives, and what rules of one's own may be.
#include "chat/loss_rules.h"

#include <gtest/gtest.h>

#include "io/json.h"
#include "tests/support/temp_dir.h"

namespace tern::chat {
namespace {

using Json = io::Json;

// script/golden.d/loss_scale.py made them with ms-swift's own functions.
TEST(LossRules, CutAndWeighAsMsSwiftDoes) {
  const Json cases = io::read_json_file(std::string(TERN_TEST_DATA) + "/golden/loss-scale.json").value();
  ASSERT_GT(cases.size(), 20U);
  for (const Json& one : cases) {
    const std::string text = one["response"].text();
    const LossRules rules = LossRules::parse(one["chain"].text()).value();
    std::vector<float> weights;
    for (const WeightedPart& part : rules.parts(one["query"].text(), text)) {
      ASSERT_EQ(part.begin, weights.size()) << one.dump();
      weights.resize(part.end, part.weight);
    }
    ASSERT_EQ(weights.size(), text.size()) << one.dump();
    std::size_t at = 0;
    for (const Json& part : one["parts"]) {
      for (const char c : part[0].text()) {
        EXPECT_EQ(text[at], c) << one.dump();
        EXPECT_EQ(weights[at], part[1].get<float>()) << one.dump() << " at " << at;
        ++at;
      }
    }
    EXPECT_EQ(at, text.size()) << one.dump();
  }
}

TEST(LossRules, ComeFromFilesToo) {
  const test::TempDir folder;
  const std::string file = folder.write("rules.json", R"({"\\d+": [3]})");
  const LossRules rules = LossRules::parse(file).value();
  const auto parts = rules.parts("", "is 12.");
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[1].begin, 3U);
  EXPECT_EQ(parts[1].end, 5U);
  EXPECT_EQ(parts[1].weight, 3.0F);
  EXPECT_NE(rules.text(), LossRules::parse("react").value().text()) << "samples depend on the rules";
  for (const char* wrong : {R"({"(": [1]})", R"({"a": [-1]})", R"({"a": []})", R"({"a": [1, 2, 3]})", R"([1])"}) {
    const auto refused = LossRules::parse(folder.write("wrong.json", wrong));
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.error().kind, ErrorKind::data) << wrong;
  }
  EXPECT_EQ(LossRules::parse("reactt").error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace tern::chat
