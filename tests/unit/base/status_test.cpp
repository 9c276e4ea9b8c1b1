#include "base/status.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(Error, IsASentenceThatSaysWhatToDo) {
  EXPECT_EQ(usage_error("--text and --dataset cannot be used together", "drop one").line(),
            "--text and --dataset cannot be used together; drop one.");
  EXPECT_EQ(failed_error("cannot write out: no space left on device", "free some space there").line(),
            "cannot write out: no space left on device; free some space there.");
}

TEST(Error, NamesTheDataThatIsNotWhatItShouldBe) {
  EXPECT_EQ(data_error("train.jsonl:17: field \"response\"", "a string", "null", "write the answer").line(),
            "train.jsonl:17: field \"response\": expected a string, found null; write the answer");
}

// What a command is typed with may end the sentence; a stop of its own is not doubled.
TEST(Error, EndsWithOneStop) {
  const auto line = [](const char* mend) { return usage_error("it is so", mend).line(); };
  EXPECT_EQ(line("did you mean sft?"), "it is so; did you mean sft?");
  EXPECT_EQ(line("drop one."), "it is so; drop one.");
  EXPECT_EQ(line("stop!"), "it is so; stop!");
  EXPECT_EQ(line("see `tern devices`"), "it is so; see `tern devices`.");
  EXPECT_EQ(line("lower --max_model_len"), "it is so; lower --max_model_len.");
}

TEST(Error, HasTheExitStatusOfItsKind) {
  EXPECT_EQ(static_cast<int>(failed_error("a", "b").kind), 1);
  EXPECT_EQ(static_cast<int>(usage_error("a", "b").kind), 2);
  EXPECT_EQ(static_cast<int>(data_error("a", "b", "c", "d").kind), 3);
  EXPECT_EQ(static_cast<int>(device_error("a", "b").kind), 4);
  EXPECT_EQ(static_cast<int>(interrupted_error("a", "b").kind), 75);
}

// Foreign text must not break the line, nor reach the terminal's controls.
TEST(Error, IsOneLine) {
  EXPECT_EQ(usage_error("a\nb", "c\x1b[2Jd\x7f").line(), "a\\nb; c\\x1b[2Jd\\x7f.");
  EXPECT_EQ(data_error("a\n", "b\t", "c\r", "d\n").line(), "a\\n: expected b\\x09, found c\\x0d; d\\n");
  EXPECT_EQ((Error{ErrorKind::data, "kept\nas text"}).line(), "kept\\nas text");
}

TEST(Error, TakesThePlaceThatItIsInside) {
  EXPECT_EQ(failed_error("a logit is NaN", "try again").inside("rows.jsonl:3").line(),
            "rows.jsonl:3: a logit is NaN; try again.");
  const Error inner = data_error("key \"a\"", "1", "2", "mend it").inside("f.json");
  EXPECT_EQ(inner.kind, ErrorKind::data);
  EXPECT_EQ(inner.line(), "f.json: key \"a\": expected 1, found 2; mend it");
}

}  // namespace
}  // namespace tern
