// What tern score writes.
#include "cli/score_output.h"

#include <gtest/gtest.h>

#include "chat/model_text.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace tern::cli {
namespace {

// Broken if a full disk showed at the end, when all texts were scored.
TEST(ScoreOutput, ARowThatIsNotWrittenEndsTheRunAtOnce) {
  const test::TempDir scratch;
  e2e::write_tiny_model(scratch.path());
  const chat::ModelText text = chat::load_model_text(scratch.path()).value();
  ScoreOutput output("/dev/full", text.tokenizer);
  try {
    output.write({.ids = {1, 2}, .logprobs = {-1.0}, .error = {}, .comparison = {}});
    FAIL() << "the row was written nowhere";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "the scores could not be written to /dev/full; check the space left.");
  }
}

// And a run that is killed leaves the rows so far.
TEST(ScoreOutput, ARowIsInTheFileAsSoonAsItIsWritten) {
  const test::TempDir scratch;
  e2e::write_tiny_model(scratch.path());
  const chat::ModelText text = chat::load_model_text(scratch.path()).value();
  ScoreOutput output((scratch.path() / "scores.jsonl").string(), text.tokenizer);
  output.write({.ids = {1, 2}, .logprobs = {-1.0}, .error = {}, .comparison = {}});
  EXPECT_NE(scratch.read("scores.jsonl").find("\"loss\":1.0"), std::string::npos);
}

}  // namespace
}  // namespace tern::cli
