// tern tokenize as a user types it: each way to give text, each way to see the tokens.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "run.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

class Tokenize : public ::testing::Test {
 protected:
  Tokenize() { write_tiny_model(scratch_.path() / "model"); }
  Outcome tokenize(std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), {"tokenize", "--model", (scratch_.path() / "model").string()});
    Options options;
    options.input = input;
    return run(words, options);
  }
  std::string output(std::vector<std::string> words, const std::string& input = "") {
    const auto outcome = tokenize(std::move(words), input);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }

  Scratch scratch_;
};

TEST_F(Tokenize, TextAsALineAToken) {
  EXPECT_EQ(output({"--text", "a b"}), "97\t\"a\"\n32\t\" \"\n98\t\"b\"\n");
  EXPECT_EQ(output({"--text", "\xC3\xA9"}), "195\t\"Ã\"\n169\t\"©\"\n")
      << "parts of a character as the vocabulary has them";
}

TEST_F(Tokenize, StandardInputIsOneTextWithItsNewlines) {
  EXPECT_EQ(output({}, "a\nb\n"), "97\t\"a\"\n10\t\"\\n\"\n98\t\"b\"\n10\t\"\\n\"\n");
  EXPECT_EQ(output({}, "a\nb\n"), output({"--text", "a\nb\n"}));
}

TEST_F(Tokenize, JsonHasIdsPiecesAndText) {
  EXPECT_EQ(output({"--text", "a b", "--json"}),
            "{\"ids\":[97,32,98],\"pieces\":[\"a\",\"Ġ\",\"b\"],\"text\":\"a b\"}\n");
  EXPECT_EQ(output({"--json"}, "a"), "{\"ids\":[97],\"pieces\":[\"a\"],\"text\":\"a\"}\n");
}

TEST_F(Tokenize, EachRowOfADataset) {
  const auto rows = scratch_.write("rows.jsonl", "{\"text\": \"a\"}\n{\"text\": \"bc\"}\n");
  EXPECT_EQ(
      output({"--dataset", rows, "--json"}),
      "{\"ids\":[97],\"pieces\":[\"a\"],\"text\":\"a\"}\n{\"ids\":[98,99],\"pieces\":[\"b\",\"c\"],\"text\":\"bc\"}\n");
  EXPECT_EQ(output({"--dataset", rows}), "97\t\"a\"\n98\t\"b\"\n99\t\"c\"\n");
  const auto both = tokenize({"--dataset", rows, "--text", "a"});
  EXPECT_EQ(both.status, 2);
  EXPECT_EQ(both.last_error_line(), "tern: error: --text and --dataset cannot be used together; drop one.");
}

TEST_F(Tokenize, DialoguesAreRefusedByName) {
  const auto rows = scratch_.write("rows.jsonl", "{\"query\": \"a\", \"response\": \"b\"}\n");
  const auto outcome = tokenize({"--dataset", rows});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.last_error_line().find("rows.jsonl:1: expected a row {\"text\"}"), std::string::npos)
      << outcome.err;
}

TEST_F(Tokenize, IdsBackToText) {
  EXPECT_EQ(output({"--text", "[97, 32, 98]", "--decode"}), "a b\n");
  EXPECT_EQ(output({"--decode"}, "195 169\n"), "\xC3\xA9\n");
  EXPECT_EQ(output({"--decode", "--json"}, "97,98"), "{\"ids\":[97,98],\"pieces\":[\"a\",\"b\"],\"text\":\"ab\"}\n");
  const auto rows = scratch_.write("ids.jsonl", "{\"text\": \"97 98\"}\n{\"text\": \"99\"}\n");
  EXPECT_EQ(output({"--dataset", rows, "--decode"}), "ab\nc\n");
  const auto wrong = tokenize({"--decode"}, "97 x");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.last_error_line().find("--decode takes token ids from 0 to "), std::string::npos) << wrong.err;
}

TEST_F(Tokenize, IntoAFile) {
  const auto path = (scratch_.path() / "out.txt").string();
  EXPECT_EQ(output({"--text", "a", "--result_path", path}), "");
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "97\t\"a\"\n");
}

}  // namespace
}  // namespace tern::e2e
